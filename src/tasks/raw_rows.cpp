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
class ConllReader : public RawReader {
 public:
  ConllReader(const std::filesystem::path& path, const OwnColumns& columns, RawLabels labels)
      : path_(path),
        table_(path),
        word_at_(column_number(columns.text, "--text").value_or(0)),
        tag_at_(column_number(columns.label, "--label")),
        needs_tags_(labels == RawLabels::kNeeded) {}

  bool next(RawRow& row) override {
    row = {};
    while (table_.next()) {
      const auto cells = conll_cells(std::string(table_.text()));
      const bool blank =
          std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.empty(); });
      if (blank && !row.words.empty()) break;
      if (!blank && cells[0] != "-DOCSTART-") add_word(cells, row);
    }
    any_ = any_ || !row.words.empty();
    HYDRAMIX_CHECK(any_, path_.string(),
                   ": has no rows; expected sentences, a word and its tag a line.");
    return !row.words.empty();
  }
  int64_t consumed() const override { return table_.consumed(); }
  std::string fingerprint() const override { return table_.fingerprint(); }

 private:
  void add_word(const Names& cells, RawRow& row) {
    if (width_ == 0) width_ = cells.size();
    HYDRAMIX_CHECK(cells.size() == width_, table_.where(), ": has ",
                   counted(std::ssize(cells), "column"), "; the first word has ", width_,
                   ". Separate columns by blanks or by single tabs, sentences by a blank line.");
    const bool tagged = needs_tags_ || width_ > 1;
    HYDRAMIX_CHECK(word_at_ < width_ && tag_at_.value_or(0) < width_ && (!tagged || width_ > 1),
                   table_.where(), ": has ", counted(static_cast<int64_t>(width_), "column"),
                   "; expected a word and its tag in columns of their own, as \"Anna B-PER\".");
    HYDRAMIX_CHECK(!cells[word_at_].empty(), table_.where(), ": column ", word_at_ + 1,
                   " is empty; expected a word. Fill it in, or remove the line.");
    if (row.words.empty()) row.line = table_.line();
    row.words.push_back(cells[word_at_]);
    if (tagged) row.tags.push_back(cells[tag_at_.value_or(width_ - 1)]);
  }

  std::filesystem::path path_;
  TableReader table_;
  std::size_t word_at_;
  std::optional<std::size_t> tag_at_;
  bool needs_tags_, any_ = false;
  std::size_t width_ = 0;  // columns of the first word
};

// Rows with named values.
class NamedReader : public RawReader {
 public:
  NamedReader(const std::filesystem::path& path, RowFormat format, LabelKind kind,
              const OwnColumns& columns, RawLabels labels)
      : path_(path),
        rows_(open_rows(path, format)),
        columns_(columns),
        labels_(labels),
        tokens_(kind == LabelKind::kTokens) {
    if (tokens_ && columns_.text.empty()) columns_.text = "tokens";
    if (tokens_ && columns_.label.empty()) columns_.label = "tags";
  }

  bool next(RawRow& row) override {
    const bool more = rows_->next();
    any_ = any_ || more;
    HYDRAMIX_CHECK(any_, path_.string(), ": has no rows; expected ",
                   tokens_ ? "sentences, a word and its tag a line." : "some below the header.");
    if (!more) return false;
    row = {};
    if (tokens_) {
      row = tagged_row(*rows_, columns_, labels_);
    } else {
      row.first = needed_text(*rows_, columns_.text, "--text");
      if (!columns_.pair.empty()) row.second = needed_text(*rows_, columns_.pair, "--pair");
      row.label = label_of(*rows_, columns_, labels_);
    }
    row.line = rows_->line();
    return true;
  }
  int64_t consumed() const override { return rows_->consumed(); }
  std::string fingerprint() const override { return rows_->fingerprint(); }

 private:
  std::filesystem::path path_;
  std::unique_ptr<RowReader> rows_;
  OwnColumns columns_;
  RawLabels labels_;
  bool tokens_, any_ = false;
};

}  // namespace

std::string place_of(const RawRow& row, const std::filesystem::path& path) {
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

std::unique_ptr<RawReader> open_raw_rows(const std::filesystem::path& path,
                                         const std::string& format, LabelKind kind,
                                         const OwnColumns& columns, RawLabels labels) {
  const bool tokens = kind == LabelKind::kTokens;
  HYDRAMIX_CHECK_USAGE(!tokens || (format != "csv" && format != "tsv"), "format: ", format,
                       " has no place for words and their tags; expected conll or jsonl.");
  HYDRAMIX_CHECK_USAGE(tokens || format != "conll",
                       "format: conll holds words and their tags; add --task tokens.");
  const auto found = row_format(path, format);
  if (tokens && found != RowFormat::kJsonLines)
    return std::make_unique<ConllReader>(path, columns, labels);
  return std::make_unique<NamedReader>(path, found, kind, columns, labels);
}

RawFile read_raw_rows(const std::filesystem::path& path, const std::string& format, LabelKind kind,
                      const OwnColumns& columns, RawLabels labels) {
  RawFile file{path, {}, ""};
  const auto reader = open_raw_rows(path, format, kind, columns, labels);
  for (RawRow row; reader->next(row);) file.rows.push_back(std::move(row));
  file.fingerprint = reader->fingerprint();
  return file;
}

}  // namespace hydramix
