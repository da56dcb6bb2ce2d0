// SPDX-License-Identifier: Apache-2.0
// The training runs in a folder and the lines of their metrics.jsonl, as JSON for the page.
#pragma once

#include <filesystem>
#include <string>

namespace hydramix::serve {

// {"runs": [{"name", "bytes", "modified"}, ...]}: folders with a metrics.jsonl, the folder
// itself and those one or two levels deep. An HttpError 404 for an empty `folder`.
std::string runs_list(const std::filesystem::path& folder);

// {"name", "lines": [...], "next"}: the complete lines from byte `after` on, as far as they end in
// the next 4 MiB. An HttpError for a run that runs_list() does not have.
std::string run_metrics(const std::filesystem::path& folder, const std::string& name,
                        const std::string& after);

}  // namespace hydramix::serve
