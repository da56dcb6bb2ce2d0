// SPDX-License-Identifier: Apache-2.0
// predict for a model that tags words.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/text_job.h"

namespace hydramix {

// `files` hold sentences: CoNLL (one word per line, blank lines between sentences), JSON lines with
// a list of words, or text, whose words are separated by blanks. `text` is such a text. Writes
// CoNLL ("text", the default) or JSON lines with tags and entities; prints metrics where the files
// have tags.
int predict_tags(const std::filesystem::path& folder, const std::string& text,
                 const std::vector<std::string>& files, const TextJobOptions& job);

}  // namespace hydramix
