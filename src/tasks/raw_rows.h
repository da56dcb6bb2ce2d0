// SPDX-License-Identifier: Apache-2.0
// The rows of a user's own file before their labels are interpreted, one by one.
#pragma once

#include <filesystem>
#include <memory>
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

class RawReader {
 public:
  virtual ~RawReader() = default;
  // The next row; false after the last. A file without rows is an Error.
  virtual bool next(RawRow& row) = 0;
  virtual int64_t consumed() const = 0;         // bytes of the file so far
  virtual std::string fingerprint() const = 0;  // of all bytes; call after the last row
};

struct RawFile {
  std::filesystem::path path;
  std::vector<RawRow> rows;  // at least one
  std::string fingerprint;
};

std::string place_of(const RawRow& row, const std::filesystem::path& path);  // "mine.tsv: line 3"

enum class RawLabels { kNeeded, kIfThere };

// `columns` with the usual names where they are empty.
OwnColumns complete_columns(OwnColumns columns, LabelKind kind);

// `format`: auto, tsv, csv, jsonl or conll. Columns must be complete.
std::unique_ptr<RawReader> open_raw_rows(const std::filesystem::path& path,
                                         const std::string& format, LabelKind kind,
                                         const OwnColumns& columns, RawLabels labels);
RawFile read_raw_rows(const std::filesystem::path& path, const std::string& format, LabelKind kind,
                      const OwnColumns& columns, RawLabels labels);

}  // namespace hydramix
