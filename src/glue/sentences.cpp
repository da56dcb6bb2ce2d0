// SPDX-License-Identifier: Apache-2.0
#include "glue/sentences.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/quotes.h"
#include "base/spelling.h"
#include "data/table_reader.h"
#include "hydramix/error.h"

namespace hydramix {

// Column numbers of the cells in use.
struct SentencePlaces {
  std::size_t columns, first;
  std::optional<std::size_t> second, label, id;
};

namespace {

using Names = std::vector<std::string>;

std::optional<std::size_t> place_of(const std::string& name, const Names& header) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

std::string columns_text(std::size_t count) {
  return concat(count, count == 1 ? " column" : " columns");
}

// `where` starts error messages: the file and the line of the header.
SentencePlaces find_places(const SentenceTask& task, const Names& header, Labels labels,
                           const std::string& where) {
  const auto needed = [&](const std::string& name) {
    const auto place = place_of(name, header);
    HYDRAMIX_CHECK(place.has_value(), where, ": has no column '", name, "', which ", task.name,
                   " needs; the header is ", in_quotes(join(header)), ". ",
                   name == task.columns.label
                       ? "Is it a test file? Those have no labels; give the file train or dev."
                       : "Use the official file, whose first line names the columns.");
    return *place;
  };
  SentencePlaces places = {
      header.size(), needed(task.columns.first), {}, {}, place_of("index", header)};
  if (task.pairs) places.second = needed(task.columns.second);
  if (labels == Labels::kNeeded) places.label = needed(task.columns.label);
  if (labels == Labels::kIfThere) places.label = place_of(task.columns.label, header);
  if (!places.id) places.id = place_of("id", header);
  return places;
}

double parse_score(std::string_view text, const TableReader& table, const std::string& column) {
  double score = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), score);
  const bool is_number = failure == std::errc() && end == text.data() + text.size();
  HYDRAMIX_CHECK(is_number && score >= kLowestScore && score <= kHighestScore, table.where(), ": ",
                 column, " is ", in_quotes(text), "; expected a number from ", kLowestScore, " to ",
                 kHighestScore, ". Correct the row or remove it.");
  return score;
}

double parse_label(const SentenceTask& task, std::string_view text, const TableReader& table) {
  if (task.is_regression()) return parse_score(text, table, task.columns.label);
  const auto found = std::find(task.labels.begin(), task.labels.end(), text);
  HYDRAMIX_CHECK(found != task.labels.end(), table.where(), ": ", task.columns.label, " is ",
                 in_quotes(text), "; expected a label of ", task.name, ": ", join(task.labels),
                 ". Correct the row or remove it.");
  return static_cast<double>(found - task.labels.begin());
}

}  // namespace

struct SentenceReader::State {
  State(const SentenceTask& of, const std::filesystem::path& file, Labels labels)
      : task(of), path(file), table(file) {
    waiting = table.next();
    HYDRAMIX_CHECK(waiting, path.string(), ": is empty; expected rows of ", task.name,
                   ". Get the file again.");
    header.assign(table.cells().begin(), table.cells().end());
    headless = !task.columns.headless.empty() && !place_of(task.columns.first, header);
    if (headless) header = task.columns.headless;
    places = find_places(task, header, labels, table.where());
    waiting = headless;
  }

  // Whether the row has all its cells. A torn row of a file that may have some is remembered.
  bool is_whole() {
    const auto& cells = table.cells();
    if (cells.size() == places.columns) return true;
    const std::string message =
        concat(table.where(), ": has ", columns_text(cells.size()), "; expected ",
               columns_text(places.columns),
               headless ? concat(" (", join(header), ", since line 1 is no header with '",
                                 task.columns.first, "')")
                        : "",
               ". Separate them by single tabs, or remove the row.");
    const bool may_be_torn = task.columns.some_torn && places.label.has_value();
    HYDRAMIX_CHECK(may_be_torn && cells.size() < places.columns, message);
    if (torn.empty()) first_torn = message;
    torn.push_back(table.line());
    return false;
  }

  void take(Sentence& row) {
    const auto& cells = table.cells();
    row.id = places.id ? std::string(cells[*places.id]) : std::to_string(rows);
    row.first = cells[places.first];
    row.second = places.second ? std::string(cells[*places.second]) : "";
    row.label = places.label ? parse_label(task, cells[*places.label], table)
                             : std::numeric_limits<double>::quiet_NaN();
    row.line = table.line();
    ++rows;
  }

  void check_end() const {
    HYDRAMIX_CHECK(torn.size() * 1000 <= rows, first_torn);
    HYDRAMIX_CHECK(rows > 0, path.string(), ": has no rows below its header; expected some of ",
                   task.name, ". Get the file again.");
  }

  const SentenceTask& task;
  std::filesystem::path path;
  TableReader table;
  std::vector<std::string> header;
  bool headless = false;
  SentencePlaces places{};
  bool waiting = false;  // the table is at a row that was not returned
  std::size_t rows = 0;
  std::vector<int64_t> torn;
  std::string first_torn;  // the message
};

SentenceReader::SentenceReader(const SentenceTask& task, const std::filesystem::path& path,
                               Labels labels)
    : state_(std::make_unique<State>(task, path, labels)) {}

SentenceReader::~SentenceReader() = default;

bool SentenceReader::next(Sentence& row) {
  while (state_->waiting || state_->table.next()) {
    state_->waiting = false;
    if (!state_->is_whole()) continue;
    state_->take(row);
    return true;
  }
  state_->check_end();
  return false;
}

int64_t SentenceReader::consumed() const { return state_->table.consumed(); }

std::string SentenceReader::fingerprint() const { return state_->table.fingerprint(); }

const std::vector<int64_t>& SentenceReader::torn() const { return state_->torn; }

SentenceFile read_sentences(const SentenceTask& task, const std::filesystem::path& path,
                            Labels labels) {
  SentenceReader reader(task, path, labels);
  SentenceFile file{path, {}, "", {}};
  for (Sentence row; reader.next(row);) file.rows.push_back(row);
  file.fingerprint = reader.fingerprint();
  file.torn = reader.torn();
  return file;
}

std::string left_out(const std::filesystem::path& path, const std::vector<int64_t>& torn) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> lines;
  for (const int64_t line : torn)
    if (lines.size() < kNamed) lines.push_back(std::to_string(line));
  if (torn.size() > kNamed) lines.push_back("...");
  return concat(path.string(), ": left out ", torn.size(),
                torn.size() == 1 ? " row that a line break tore apart, in line "
                                 : " rows that line breaks tore apart, in lines ",
                join(lines));
}

}  // namespace hydramix
