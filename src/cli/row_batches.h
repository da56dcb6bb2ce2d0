// SPDX-License-Identifier: Apache-2.0
// The rows of one file in batches, in constant memory, with progress in bytes.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/text_job.h"
#include "hydramix/error.h"

namespace hydramix {

// Calls process(rows) with batches of the rows, in order, until the results are closed. A TextError
// gets the line of its row. `Reader` has next(Row&) and consumed(); `Row` has a line.
template <class Row, class Reader, class Process>
void for_each_row_batch(const std::string& file, Reader& reader, const ResultFile& results,
                        const Process& process) {
  constexpr std::size_t kMostRows = 256;
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(file, unknown);
  std::optional<Progress> progress;
  if (!unknown && !(results.to_stdout() && isatty(STDOUT_FILENO) != 0))
    progress.emplace("predict", static_cast<int64_t>(bytes),
                     byte_unit(static_cast<int64_t>(bytes)));
  std::vector<Row> batch;
  for (bool more = true; more && !results.closed();) {
    batch.clear();
    for (Row row; batch.size() < kMostRows && (more = reader.next(row));)
      batch.push_back(std::move(row));
    if (batch.empty()) break;
    try {
      process(std::span<const Row>(batch));
    } catch (const TextError& error) {
      throw Error(
          concat("predict: ", file, ": line ", batch[error.index()].line, ": ", error.reason()));
    }
    if (progress) progress->advance_to(reader.consumed());
  }
}

}  // namespace hydramix
