// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/counted.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "data/csv_reader.h"
#include "data/input_files.h"
#include "data/table_reader.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using RowJson = nlohmann::ordered_json;
using Names = std::vector<std::string>;

void check_header(const Names& header, const std::string& where) {
  for (std::size_t i = 0; i < header.size(); ++i)
    HYDRAMIX_CHECK(std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i),
                             header[i]) == header.begin() + static_cast<std::ptrdiff_t>(i),
                   where, ": two columns are called ", in_quotes(clipped(header[i], 80)),
                   ". Give each a name of its own.");
}

// A table whose first row is a header. `Table` is TableReader or CsvReader.
template <class Table>
class HeaderRows : public RowReader {
 public:
  HeaderRows(const std::filesystem::path& path, const char* separator)
      : table_(path), separator_(separator) {
    HYDRAMIX_CHECK(table_.next(), path.string(),
                   ": is empty; expected a header with the names of the columns, and rows.");
    header_.assign(table_.cells().begin(), table_.cells().end());
    check_header(header_, table_.where());
  }
  bool next() override {
    do {
      if (!table_.next()) return false;
    } while (table_.cells().size() == 1 && table_.cells()[0].empty());
    HYDRAMIX_CHECK(table_.cells().size() == header_.size(), table_.where(), ": has ",
                   counted(std::ssize(table_.cells()), "cell"), "; the header names ",
                   header_.size(), ". Separate cells by single ", separator_,
                   ", or remove the row.");
    return true;
  }
  Names columns() const override { return header_; }
  std::optional<RowValue> value(const std::string& column) const override {
    const auto found = std::find(header_.begin(), header_.end(), column);
    if (found == header_.end()) return std::nullopt;
    return RowValue{std::string(table_.cells()[static_cast<std::size_t>(found - header_.begin())])};
  }
  int64_t line() const override { return table_.line(); }
  std::string where() const override { return table_.where(); }
  int64_t consumed() const override { return table_.consumed(); }
  std::string fingerprint() const override { return table_.fingerprint(); }

 private:
  Table table_;
  const char* separator_;
  Names header_;
};

// Texts, numbers and truth values as text; nullopt for null, lists and objects.
std::optional<std::string> scalar_text(const RowJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

std::optional<Names> list_of(const RowJson& value) {
  if (!value.is_array()) return std::nullopt;
  Names items;
  for (const auto& item : value) {
    const auto text = scalar_text(item);
    if (!text) return std::nullopt;
    items.push_back(*text);
  }
  return items;
}

class JsonRows : public RowReader {
 public:
  explicit JsonRows(const std::filesystem::path& path) : lines_(path) {}
  bool next() override {
    std::string text;
    do {
      if (!lines_.next()) return false;
      text = lines_.text();
    } while (text.find_first_not_of(" \t\r") == std::string::npos);
    row_ = parse_json(text, lines_.where(), "Write one object a line.");
    HYDRAMIX_CHECK(row_.is_object(), lines_.where(),
                   ": is no JSON object; expected one a line, like {\"text\": \"...\", \"label\": "
                   "\"...\"}. This is: ",
                   in_quotes(clipped(text, 80)));
    return true;
  }
  Names columns() const override {
    Names names;
    for (const auto& [name, value] : row_.items()) names.push_back(name);
    return names;
  }
  std::optional<RowValue> value(const std::string& column) const override {
    const auto found = row_.find(column);
    if (found == row_.end() || found->is_null()) return std::nullopt;
    if (const auto text = scalar_text(*found)) return RowValue{*text};
    const auto list = list_of(*found);
    HYDRAMIX_CHECK(list, where(), ": ", in_quotes(clipped(column, 80)),
                   " is an object or a list of such; expected a text, a number or a list of them.");
    return RowValue{"", *list};
  }
  int64_t line() const override { return lines_.line(); }
  std::string where() const override { return lines_.where(); }
  int64_t consumed() const override { return lines_.consumed(); }
  std::string fingerprint() const override { return lines_.fingerprint(); }

 private:
  TableReader lines_;
  RowJson row_;
};

}  // namespace

RowFormat row_format(const std::filesystem::path& path, const std::string& format) {
  const bool by_name = format == "auto";
  const auto name = path.string();
  if (by_name ? holds_json_lines(name) : format == "jsonl") return RowFormat::kJsonLines;
  if (by_name ? format_ending(name) == ".csv" : format == "csv") return RowFormat::kCsv;
  return RowFormat::kTsv;
}

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, RowFormat format) {
  if (format == RowFormat::kJsonLines) return std::make_unique<JsonRows>(path);
  if (format == RowFormat::kCsv)
    return std::make_unique<HeaderRows<CsvReader>>(path,
                                                   "commas, with quotes around cells that "
                                                   "have commas");
  return std::make_unique<HeaderRows<TableReader>>(path, "tabs");
}

std::optional<Names> json_list(const std::string& text) {
  if (!text.starts_with('[')) return std::nullopt;
  return list_of(try_parse_json(text));
}

}  // namespace hydramix
