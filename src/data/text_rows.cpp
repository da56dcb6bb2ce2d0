// SPDX-License-Identifier: Apache-2.0
#include "data/text_rows.h"

#include <algorithm>
#include <filesystem>

#include "base/counted.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "data/input_files.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::vector<std::string> split_cells(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t end; (end = line.find('\t')) != line.npos; line.remove_prefix(end + 1))
    cells.emplace_back(line.substr(0, end));
  cells.emplace_back(line);
  return cells;
}

// The text of a field, which must be a string.
std::string string_of(const nlohmann::ordered_json& object, const std::string& field) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(escaped(name));
  HYDRAMIX_CHECK(object.contains(field), "has no field ", in_quotes(field),
                 "; there are: ", clipped(join(names), 200), ".", did_you_mean(field, names),
                 " Name it with --field.");
  HYDRAMIX_CHECK(object[field].is_string(), "the field ", in_quotes(field), " is ",
                 clipped(object[field].dump(), 80), "; expected a text.");
  return object[field].get<std::string>();
}

}  // namespace

std::string text_format_of(const std::string& path) {
  if (holds_json_lines(path)) return "jsonl";
  const auto ending = format_ending(path);
  return ending == ".tsv" ? "tsv" : ending == ".csv" ? "csv" : "text";
}

TextRows::TextRows(std::vector<TextRow> given, std::vector<std::string> files,
                   TextRowOptions options)
    : given_(std::move(given)), files_(std::move(files)), options_(std::move(options)) {
  HYDRAMIX_CHECK_USAGE(std::count(files_.begin(), files_.end(), "-") <= 1,
                       "stdin (-) is given twice; it can be read once.");
}

int64_t TextRows::consumed() const {
  return consumed_before_ + (lines_ ? lines_->consumed() : csv_ ? csv_->consumed() : 0);
}

int64_t TextRows::total() const {
  int64_t bytes = 0;
  for (const auto& file : files_) {
    std::error_code failed;
    if (file == "-" || !std::filesystem::is_regular_file(file, failed)) return 0;
    const auto size = std::filesystem::file_size(file, failed);
    if (!failed) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

std::string TextRows::where() const {
  const auto& file = files_[next_file_ - 1];
  return concat(file == "-" ? "stdin" : file, ": line ", csv_ ? csv_->line() : lines_->number());
}

bool TextRows::open_next_file() {
  if (next_file_ == files_.size()) return false;
  const std::string& file = files_[next_file_++];
  format_ = options_.format == "auto" ? text_format_of(file) : options_.format;
  if (format_ == "csv")
    csv_ = std::make_unique<CsvReader>(file);
  else
    lines_ = std::make_unique<LineReader>(open_text(file), kLongestTextLine);
  columns_.clear();
  return true;
}

bool TextRows::next(TextRow& row) {
  if (next_given_ < given_.size()) {
    row = given_[next_given_++];
    return true;
  }
  while (true) {
    if (!lines_ && !csv_ && !open_next_file()) return false;
    if (!(csv_ ? csv_->next() : lines_->next())) {
      consumed_before_ += csv_ ? csv_->consumed() : lines_->consumed();
      lines_.reset();
      csv_.reset();
      continue;
    }
    if (lines_) check_line_length(*lines_, files_[next_file_ - 1]);
    row.where = where();
    row.is_argument = false;
    row.second.reset();
    try {
      if (read_line(row)) return true;
    } catch (const Error& error) {
      throw Error(concat(row.where, ": ", error.what()));
    }
  }
}

bool TextRows::read_line(TextRow& row) {
  if (csv_) return read_cells(csv_->cells(), row);
  std::string_view line = lines_->text();
  if (lines_->number() == 1) line = without_byte_order_mark(line);
  if (format_ == "text") {
    row.first = line;
    return true;
  }
  if (format_ == "jsonl") {
    if (line.find_first_not_of(kBlanks) == line.npos) return false;
    parse_json_line(line, row);
    return true;
  }
  unicode::check_utf8(line);
  return read_cells(split_cells(line), row);
}

// The first row of a table is its header.
bool TextRows::read_cells(const std::vector<std::string>& cells, TextRow& row) {
  const bool is_header = columns_.empty();
  if (is_header)
    read_header(cells);
  else
    take_cells(cells, row);
  return !is_header;
}

void TextRows::parse_json_line(std::string_view line, TextRow& row) const {
  const auto value = try_parse_json(line);
  HYDRAMIX_CHECK(!value.is_discarded(), in_quotes(line),
                 " is not JSON; expected a text, a list of two texts, or an object with the field ",
                 in_quotes(options_.field), ". Give --format text for lines of plain text.");
  if (value.is_string()) {
    row.first = value.get<std::string>();
  } else if (value.is_array()) {
    HYDRAMIX_CHECK(value.size() == 2 && value[0].is_string() && value[1].is_string(),
                   in_quotes(line), " is a list; expected two texts in it, a pair.");
    row.first = value[0].get<std::string>();
    row.second = value[1].get<std::string>();
  } else {
    HYDRAMIX_CHECK(value.is_object(), in_quotes(line),
                   " is neither a text nor a list of two texts nor an object.");
    row.first = string_of(value, options_.field);
    if (!options_.second_field.empty()) row.second = string_of(value, options_.second_field);
  }
}

void TextRows::read_header(std::vector<std::string> columns) {
  columns_ = std::move(columns);
  for (const auto& field : {options_.field, options_.second_field})
    HYDRAMIX_CHECK(
        field.empty() || std::find(columns_.begin(), columns_.end(), field) != columns_.end(),
        "the table has no column ", in_quotes(field),
        "; its first line names: ", clipped(escaped(join(columns_)), 200), ".",
        did_you_mean(field, columns_),
        " Name the column with --field, or give --format text for lines of plain text.");
}

void TextRows::take_cells(const std::vector<std::string>& cells, TextRow& row) const {
  HYDRAMIX_CHECK(cells.size() == columns_.size(), "has ", counted(std::ssize(cells), "cell"),
                 ", the first line ", columns_.size(), ". Repair the row.");
  const auto cell = [&](const std::string& column) {
    const auto at = std::find(columns_.begin(), columns_.end(), column) - columns_.begin();
    return cells[static_cast<std::size_t>(at)];
  };
  row.first = cell(options_.field);
  if (!options_.second_field.empty()) row.second = cell(options_.second_field);
}

}  // namespace hydramix
