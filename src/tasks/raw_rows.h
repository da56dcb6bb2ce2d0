// SPDX-License-Identifier: Apache-2.0
// The rows of a user's own file before their labels are interpreted.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/row_reader.h"
#include "tasks/own_data.h"

namespace hydramix {

struct RawRow {
  std::string first, second;
  std::optional<RowValue> label;
  std::vector<std::string> words, tags;  // kTokens, in place of texts and label
  int64_t line = 0;
};

struct RawFile {
  std::filesystem::path path;
  std::vector<RawRow> rows;  // at least one
  std::string fingerprint;
  std::string where(const RawRow& row) const;  // "mine.tsv: line 3"
};

enum class RawLabels { kNeeded, kIfThere };

// `columns` with the usual names where they are empty.
OwnColumns complete_columns(OwnColumns columns, LabelKind kind);

// `format`: auto, tsv, csv, jsonl or conll. Columns must be complete.
RawFile read_raw_rows(const std::filesystem::path& path, const std::string& format, LabelKind kind,
                      const OwnColumns& columns, RawLabels labels);

}  // namespace hydramix
