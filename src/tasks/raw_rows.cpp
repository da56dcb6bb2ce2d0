// SPDX-License-Identifier: Apache-2.0
#include "tasks/raw_rows.h"

#include <algorithm>
#include <charconv>

#include "base/counted.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "data/table_reader.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Names = std::vector<std::string>;

// The value of a column that every row needs; `flag` is the option that names it.
RowValue needed_value(const RowReader& rows, const std::string& column, const char* flag) {
  auto value = rows.value(column);
  if (!value) {
    const Names names = rows.columns();
    HYDRAMIX_CHECK_USAGE(std::find(names.begin(), names.end(), column) != names.end(), rows.where(),
                         ": has no column ", in_quotes(clipped(column, 80)), ", only ",
                         clipped(escaped(join(names)), 400), ". Name the right one with ", flag,
                         ".", did_you_mean(column, names));
    throw Error(concat(rows.where(), ": ", in_quotes(clipped(column, 80)),
                       " is null; expected a value. Correct the row or remove it."));
  }
  return *value;
}

std::string needed_text(const RowReader& rows, const std::string& column, const char* flag) {
  auto value = needed_value(rows, column, flag);
  HYDRAMIX_CHECK(!value.list, rows.where(), ": ", in_quotes(clipped(column, 80)),
                 " is a list; expected a text. Name another column with ", flag, ".");
  return value.text;
}

std::optional<RowValue> label_of(const RowReader& rows, const OwnColumns& columns,
                                 RawLabels labels) {
  if (columns.label.empty()) return std::nullopt;
  if (labels == RawLabels::kIfThere) return rows.value(columns.label);
  return needed_value(rows, columns.label, "--label");
}

Names needed_list(const RowReader& rows, const std::string& column, const char* flag) {
  const auto value = needed_value(rows, column, flag);
  HYDRAMIX_CHECK(value.list, rows.where(), ": ", in_quotes(clipped(column, 80)),
                 " is no list; expected one of texts, one for each word.");
  return *value.list;
}

RawRow tagged_row(const RowReader& rows, const OwnColumns& columns, RawLabels labels) {
  RawRow row;
  row.words = needed_list(rows, columns.text, "--text");
  if (labels == RawLabels::kNeeded || rows.value(columns.label)) {
    row.tags = needed_list(rows, columns.label, "--label");
    HYDRAMIX_CHECK(row.words.size() == row.tags.size(), rows.where(), ": has ",
                   counted(std::ssize(row.words), "word"), " and ",
                   counted(std::ssize(row.tags), "tag"), "; expected a tag for each word.");
  }
  return row;
}

// The number of a column in a CoNLL file, counted from 0.
std::optional<std::size_t> column_number(const std::string& text, const char* flag) {
  if (text.empty()) return std::nullopt;
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  HYDRAMIX_CHECK_USAGE(failure == std::errc() && end == text.data() + text.size() && number > 0,
                       flag, ": ", in_quotes(text),
                       " is no number of a column; a CoNLL file has no names. Count from 1, or "
                       "leave it out for the first (words) and the last (tags).");
  return number - 1;
}

Names conll_cells(const std::string& line) {
  Names cells;
  const bool tabs = line.find('\t') != std::string::npos;
  std::string cell;
  for (const char c : line + (tabs ? '\t' : ' ')) {
    if (c != (tabs ? '\t' : ' ')) {
      cell += c;
    } else if (tabs || !cell.empty()) {
      cells.push_back(std::move(cell));
      cell.clear();
    }
  }
  return cells;
}

// One word per line, blank lines between sentences; the tag is the last column.
void read_conll(RawFile& file, const OwnColumns& columns, RawLabels labels) {
  const auto word_at = column_number(columns.text, "--text").value_or(0);
  const auto tag_at = column_number(columns.label, "--label");
  TableReader table(file.path);
  std::size_t width = 0;
  RawRow sentence;
  const auto finish = [&] {
    if (!sentence.words.empty()) file.rows.push_back(std::move(sentence));
    sentence = {};
  };
  while (table.next()) {
    const auto cells = conll_cells(std::string(table.text()));
    if (std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.empty(); })) {
      finish();
      continue;
    }
    if (cells[0] == "-DOCSTART-") continue;
    if (width == 0) width = cells.size();
    HYDRAMIX_CHECK(cells.size() == width, table.where(), ": has ",
                   counted(std::ssize(cells), "column"), "; the first word has ", width,
                   ". Separate columns by blanks or by single tabs, sentences by a blank line.");
    const bool tagged = labels == RawLabels::kNeeded || width > 1;
    HYDRAMIX_CHECK(word_at < width && tag_at.value_or(0) < width && (!tagged || width > 1),
                   table.where(), ": has ", counted(static_cast<int64_t>(width), "column"),
                   "; expected a word and its tag in columns of their own, as \"Anna B-PER\".");
    HYDRAMIX_CHECK(!cells[word_at].empty(), table.where(), ": column ", word_at + 1,
                   " is empty; expected a word. Fill it in, or remove the line.");
    if (sentence.words.empty()) sentence.line = table.line();
    sentence.words.push_back(cells[word_at]);
    if (tagged) sentence.tags.push_back(cells[tag_at.value_or(width - 1)]);
  }
  finish();
  file.fingerprint = table.fingerprint();
}

}  // namespace

std::string RawFile::where(const RawRow& row) const {
  return concat(path.string(), ": line ", row.line);
}

OwnColumns complete_columns(OwnColumns columns, LabelKind kind) {
  HYDRAMIX_CHECK_USAGE(kind != LabelKind::kPairs || !columns.pair.empty(),
                       "task pairs: which texts belong together? Name both columns: --text A "
                       "--pair B.");
  HYDRAMIX_CHECK_USAGE(kind != LabelKind::kTokens || columns.pair.empty(),
                       "task tokens: reads single texts; leave out --pair.");
  if (kind == LabelKind::kTokens) return columns;
  if (columns.text.empty()) columns.text = "text";
  if (columns.label.empty() && kind != LabelKind::kPairs) columns.label = "label";
  return columns;
}

RawFile read_raw_rows(const std::filesystem::path& path, const std::string& format, LabelKind kind,
                      const OwnColumns& columns, RawLabels labels) {
  RawFile file{path, {}, ""};
  const bool tokens = kind == LabelKind::kTokens;
  HYDRAMIX_CHECK_USAGE(!tokens || (format != "csv" && format != "tsv"), "format: ", format,
                       " has no place for words and their tags; expected conll or jsonl.");
  HYDRAMIX_CHECK_USAGE(tokens || format != "conll",
                       "format: conll holds words and their tags; add --task tokens.");
  if (tokens && row_format(path, format) != RowFormat::kJsonLines) {
    read_conll(file, columns, labels);
  } else {
    const auto rows = open_rows(path, row_format(path, format));
    OwnColumns own = columns;
    if (tokens && own.text.empty()) own.text = "tokens";
    if (tokens && own.label.empty()) own.label = "tags";
    while (rows->next()) {
      RawRow row;
      if (tokens) {
        row = tagged_row(*rows, own, labels);
      } else {
        row.first = needed_text(*rows, own.text, "--text");
        if (!own.pair.empty()) row.second = needed_text(*rows, own.pair, "--pair");
        row.label = label_of(*rows, own, labels);
      }
      row.line = rows->line();
      file.rows.push_back(std::move(row));
    }
    file.fingerprint = rows->fingerprint();
  }
  HYDRAMIX_CHECK(!file.rows.empty(), path.string(), ": has no rows; expected ",
                 tokens ? "sentences, a word and its tag a line." : "some below the header.");
  return file;
}

}  // namespace hydramix
