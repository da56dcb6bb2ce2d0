// SPDX-License-Identifier: Apache-2.0
// Rows with named values from a user's own file: TSV or CSV with a header, or JSON lines; plain or
// compressed. An Error names file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydramix {

enum class RowFormat { kTsv, kCsv, kJsonLines };

// `format` is tsv, csv or jsonl; or auto, by the name before .gz, .zst or .xz: .csv; .json, .jsonl,
// .ndjson; any other is TSV.
RowFormat row_format(const std::filesystem::path& path, const std::string& format = "auto");

// A text, a number or a truth value as it is written, or a list of these (JSON only).
struct RowValue {
  std::string text;
  std::optional<std::vector<std::string>> list = {};
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual bool next() = 0;  // the next row; false after the last. Blank lines are skipped.

  // The column names of the header, or the keys of this row's object.
  virtual std::vector<std::string> columns() const = 0;
  // nullopt if this row has none, or JSON's null. Throws if the value is an object.
  virtual std::optional<RowValue> value(const std::string& column) const = 0;
  virtual int64_t line() const = 0;             // counted from 1
  virtual std::string where() const = 0;        // "mine.tsv: line 3"
  virtual int64_t consumed() const = 0;         // bytes of the file so far
  virtual std::string fingerprint() const = 0;  // of all bytes; call after the last row
};

// Throws if the file is empty.
std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, RowFormat format);

// The items of a text that is a JSON list: ["a", "b"] or [1, 2]; nullopt if it is none.
std::optional<std::vector<std::string>> json_list(const std::string& text);

}  // namespace hydramix
