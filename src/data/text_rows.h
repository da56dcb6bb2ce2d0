// SPDX-License-Identifier: Apache-2.0
// Texts for a model, one by one and in constant memory: texts given directly, then lines of text,
// JSON lines or rows of a table, from files (also compressed) or from stdin.
//
//   text    every line is a text, an empty one too
//   jsonl   every line that is not blank: "a text", ["a", "pair"], or an object with the field
//   tsv     the first line names the columns; cells are separated by tabs, quotes are characters
//   csv     the same with commas, and quotes around cells (data/csv_reader)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/csv_reader.h"
#include "data/line_reader.h"

namespace hydramix {

struct TextRow {
  std::string first;
  std::optional<std::string> second;  // of a pair
  std::string where;                  // for messages: "reviews.txt: line 3", "text 1"
  bool is_argument = false;           // given directly
};

struct TextRowOptions {
  // "text", "jsonl", "tsv", "csv"; "auto": by the file's name, else text
  std::string format = "auto";
  std::string field = "text";     // of a JSON object, or the column of a table
  std::string second_field = "";  // of the second text of a pair; empty: there is none
};

class TextRows {
 public:
  // `files` may contain "-", which is stdin.
  TextRows(std::vector<TextRow> given, std::vector<std::string> files, TextRowOptions options);

  // The next text; false after the last. An Error names file and line.
  bool next(TextRow& row);

  int64_t consumed() const;  // bytes read from the files so far
  // Bytes of all files together; 0 where one of them is a pipe.
  int64_t total() const;

 private:
  bool open_next_file();
  bool read_line(TextRow& row);  // false: the line holds no text
  void parse_json_line(std::string_view line, TextRow& row) const;
  bool read_cells(const std::vector<std::string>& cells, TextRow& row);
  void read_header(std::vector<std::string> columns);
  void take_cells(const std::vector<std::string>& cells, TextRow& row) const;
  std::string where() const;

  std::vector<TextRow> given_;
  std::vector<std::string> files_;
  TextRowOptions options_;
  std::size_t next_given_ = 0, next_file_ = 0;
  int64_t consumed_before_ = 0;  // by the files before this one
  std::unique_ptr<LineReader> lines_;
  std::unique_ptr<CsvReader> csv_;    // in place of lines_
  std::string format_;                // of this file
  std::vector<std::string> columns_;  // of this table
};

// "text", "jsonl", "tsv" or "csv", by the ending of the name before .gz and the like.
std::string text_format_of(const std::string& path);

}  // namespace hydramix
