// SPDX-License-Identifier: Apache-2.0
#include "tasks/own_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "data/shuffle.h"
#include "hydramix/error.h"
#include "tasks/entities.h"
#include "tasks/raw_rows.h"

namespace hydramix {
namespace {

using Names = std::vector<std::string>;

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool is_whole_number(const std::string& text) {
  const auto value = number_in(text);
  return value && text.find_first_not_of("-0123456789") == std::string::npos;
}

std::string shown(const Names& names) {
  constexpr std::size_t kShown = 20;
  Names some(names.begin(),
             names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown)));
  for (auto& name : some) name = escaped(clipped(name, 40));
  if (names.size() > kShown) some.push_back("...");
  return join(some);
}

std::string class_text(const std::filesystem::path& path, const RawRow& row,
                       const OwnColumns& columns) {
  HYDRAMIX_CHECK(!row.label->list, place_of(row, path), ": ", columns.label,
                 " is a list; expected one class. Are there several labels a row? Add --task "
                 "labels.");
  HYDRAMIX_CHECK(!row.label->text.empty(), place_of(row, path), ": ", columns.label,
                 " is empty; expected a class. Fill it in or remove the row.");
  return row.label->text;
}

// The labels of a cell: a JSON list, or names between separators.
Names several(const RowValue& value, const std::string& separator) {
  if (value.list) return *value.list;
  if (auto list = json_list(value.text)) return *list;
  Names labels;
  const auto add = [&](std::string_view label) {
    const auto begin = label.find_first_not_of(' ');
    if (begin == label.npos) return;
    labels.emplace_back(label.substr(begin, label.find_last_not_of(' ') - begin + 1));
  };
  std::string_view rest = value.text;
  // A model that was not trained on a file has no separator; a cell is then one label.
  for (std::size_t end; !separator.empty() && (end = rest.find(separator)) != rest.npos;
       rest.remove_prefix(end + separator.size()))
    add(rest.substr(0, end));
  add(rest);
  return labels;
}

// Numbers in their order, other names by their bytes.
Names ordered(const std::set<std::string>& found) {
  Names names(found.begin(), found.end());
  if (std::all_of(names.begin(), names.end(), is_whole_number))
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return *number_in(a) < *number_in(b);
    });
  return names;
}

// O first; then type by type, B- before I-.
Names ordered_tags(const std::set<std::string>& found) {
  Names tags(found.begin(), found.end());
  const auto key = [](const std::string& tag) {
    const bool typed = is_entity_tag(tag) && tag != "O";
    return std::tuple(tag != "O", typed ? tag.substr(2) : tag, tag);
  };
  std::stable_sort(tags.begin(), tags.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return tags;
}

// Scores where every label is a number and some are not whole; else classes.
LabelKind found_kind(const RawFile& file) {
  bool fraction = false;
  for (const auto& row : file.rows) {
    if (row.label->list || !number_in(row.label->text)) return LabelKind::kClasses;
    fraction |= !is_whole_number(row.label->text);
  }
  return fraction ? LabelKind::kScore : LabelKind::kClasses;
}

Names found_classes(const RawFile& file, const OwnColumns& columns) {
  std::set<std::string> found;
  for (const auto& row : file.rows) found.insert(class_text(file.path, row, columns));
  Names names = ordered(found);
  HYDRAMIX_CHECK(names.size() > 1, file.path.string(), ": every ", columns.label, " is ",
                 in_quotes(clipped(names.front(), 80)),
                 "; expected two classes or more. Is this the right column?");
  HYDRAMIX_CHECK(names.size() < file.rows.size() || names.size() <= 2, file.path.string(),
                 ": every row has a ", columns.label, " of its own (", shown(names),
                 "); expected classes that occur again. Is this the right column? For numbers, add "
                 "--task score.");
  return names;
}

Names found_labels(const RawFile& file, const OwnColumns& columns) {
  std::set<std::string> found;
  for (const auto& row : file.rows)
    for (const auto& label : several(*row.label, columns.separator)) found.insert(label);
  HYDRAMIX_CHECK(!found.empty(), file.path.string(), ": no row has a ", columns.label,
                 "; expected lists like [\"a\", \"b\"], or names separated by ",
                 in_quotes(columns.separator), " (--separator).");
  return ordered(found);
}

Names found_tags(const RawFile& file) {
  std::set<std::string> found;
  for (const auto& row : file.rows) found.insert(row.tags.begin(), row.tags.end());
  HYDRAMIX_CHECK(!found.empty(), file.path.string(),
                 ": every list of words is empty; expected words and their tags.");
  Names tags = ordered_tags(found);
  HYDRAMIX_CHECK(tags.size() > 1, file.path.string(), ": every tag is ",
                 in_quotes(clipped(tags.front(), 80)),
                 "; expected two or more. Name the tags' column with --label, counted from 1.");
  return tags;
}

Names found_names(LabelKind kind, const OwnColumns& columns, const RawFile& file) {
  if (kind == LabelKind::kClasses) return found_classes(file, columns);
  if (kind == LabelKind::kLabels) return found_labels(file, columns);
  if (kind == LabelKind::kTokens) return found_tags(file);
  return {};
}

double score_in(const std::filesystem::path& path, const RawRow& row, const OwnColumns& columns) {
  const auto value = row.label->list ? std::nullopt : number_in(row.label->text);
  HYDRAMIX_CHECK(value, place_of(row, path), ": ", columns.label, " is ",
                 row.label->list ? "a list" : in_quotes(clipped(row.label->text, 80)),
                 "; expected a number, because the task is ",
                 columns.pair.empty() ? "score" : "score or pairs",
                 ". Correct the row, or remove it.");
  return *value;
}

double label_number(const std::string& label, const TextTask& task, const std::string& where) {
  const auto found = std::find(task.labels.begin(), task.labels.end(), label);
  HYDRAMIX_CHECK(found != task.labels.end(), where, ": ", in_quotes(clipped(label, 80)), " is no ",
                 task.kind == LabelKind::kTokens ? "tag" : "label",
                 " of the training data, which has ", shown(task.labels),
                 ". Correct the row, or add examples of it to the training data.",
                 did_you_mean(label, task.labels));
  return static_cast<double>(found - task.labels.begin());
}

std::vector<double> targets_of(const std::filesystem::path& path, const RawRow& row,
                               const TextTask& task, const OwnColumns& columns) {
  if (task.kind == LabelKind::kTokens) {
    std::vector<double> tags;
    for (const auto& tag : row.tags) tags.push_back(label_number(tag, task, place_of(row, path)));
    return tags;
  }
  if (!row.label) return {};
  if (task.kind == LabelKind::kClasses)
    return {label_number(class_text(path, row, columns), task, place_of(row, path))};
  if (task.kind != LabelKind::kLabels) return {score_in(path, row, columns)};
  std::vector<double> applies(task.labels.size());
  for (const auto& label : several(*row.label, columns.separator))
    applies[static_cast<std::size_t>(label_number(label, task, place_of(row, path)))] = 1;
  return applies;
}

Example interpreted(const std::filesystem::path& path, RawRow&& row, const TextTask& task,
                    const OwnColumns& columns) {
  auto targets = targets_of(path, row, task, columns);
  return {std::move(row.first), std::move(row.second), std::move(row.words), std::move(targets),
          row.line};
}

void check_scores_differ(const std::vector<Example>& examples, const std::string& path,
                         const std::string& column) {
  const double first = examples.front().targets.front();
  HYDRAMIX_CHECK(std::any_of(examples.begin(), examples.end(),
                             [&](const Example& e) { return e.targets.front() != first; }),
                 path, ": every ", column, " is ", first,
                 "; expected numbers that differ. Is this the right column?");
}

// Moves a share of the examples, chosen by the seed, from train to dev; both keep their order.
void hold_out(OwnData& data, const OwnDataOptions& options) {
  const auto all = std::move(data.train);
  const auto n = static_cast<int64_t>(all.size());
  const auto count = static_cast<int64_t>(std::llround(options.dev_share * static_cast<double>(n)));
  HYDRAMIX_CHECK(count >= 1 && count < n, options.data.string(), ": has ", counted(n, "row"),
                 ", and ", count, " of them would be held out for development (--dev-share ",
                 options.dev_share,
                 "); expected at least one, and one to train on. Give a --dev file.");
  constexpr uint64_t kEpoch = ~uint64_t{0};  // no epoch of training has this number
  const Shuffle order(n, static_cast<uint64_t>(options.seed), kEpoch);
  std::vector<char> held(all.size());
  for (int64_t i = 0; i < count; ++i) held[static_cast<std::size_t>(order(i))] = 1;
  data.train.clear();
  for (std::size_t i = 0; i < all.size(); ++i)
    (held[i] != 0 ? data.dev : data.train).push_back(all[i]);
  data.origin = concat(count, " of the ", n, " rows of ", options.data.string(),
                       ", held out by seed ", options.seed);
}

}  // namespace

TextTask own_task(LabelKind kind, const OwnColumns& columns, Names labels) {
  TextTask task;
  task.name = kind_name(kind);
  task.kind = kind;
  task.pairs = !columns.pair.empty();
  task.labels = std::move(labels);
  switch (kind) {
    case LabelKind::kClasses:
      task.metrics = {"accuracy", "macro_f1"};
      task.scored = {"accuracy"};
      break;
    case LabelKind::kScore:
      task.metrics = {"pearson", "spearman", "rmse"};
      task.scored = {"spearman"};
      break;
    case LabelKind::kLabels:
      task.metrics = {"micro_f1", "macro_f1", "exact"};
      task.scored = {"micro_f1"};
      break;
    case LabelKind::kTokens:
      if (std::all_of(task.labels.begin(), task.labels.end(), is_entity_tag)) {
        task.metrics = {"precision", "recall", "f1", "accuracy"};
        task.scored = {"f1"};
      } else {
        task.metrics = {"accuracy"};
      }
      break;
    case LabelKind::kPairs:
      if (columns.label.empty()) {
        task.metrics = {"recall@1", "recall@10", "mrr"};
        task.scored = {"mrr"};
      } else {
        task.metrics = {"pearson", "spearman", "recall@1", "recall@10", "mrr"};
        task.scored = {"spearman"};
      }
  }
  return task;
}

OwnData read_own_data(const OwnDataOptions& options) {
  const bool known = !options.kind.empty();
  LabelKind kind = known ? label_kind(options.kind) : LabelKind::kClasses;
  OwnData data;
  data.columns = complete_columns(options.columns, kind);
  auto file = read_raw_rows(options.data, options.format, kind, data.columns, RawLabels::kNeeded);
  if (!known) kind = found_kind(file);
  data.task = own_task(kind, data.columns, found_names(kind, data.columns, file));
  for (auto& row : file.rows)
    data.train.push_back(interpreted(file.path, std::move(row), data.task, data.columns));
  data.train_fingerprint = file.fingerprint;
  if (data.task.is_regression() || (kind == LabelKind::kPairs && !data.columns.label.empty()))
    check_scores_differ(data.train, options.data.string(), data.columns.label);
  if (options.dev.empty()) {
    hold_out(data, options);
  } else {
    auto dev = read_own_file(options.dev, options.format, data.task, data.columns,
                             /*needs_labels=*/true);
    data.dev = std::move(dev.rows);
    data.dev_fingerprint = dev.fingerprint;
    data.origin = concat(data.dev.size(), " rows of ", options.dev.string());
  }
  return data;
}

OwnReader::OwnReader(const std::filesystem::path& path, const std::string& format,
                     const TextTask& task, const OwnColumns& columns, bool needs_labels)
    : path_(path),
      task_(task),
      columns_(complete_columns(columns, task.kind)),
      rows_(open_raw_rows(path, format, task.kind, columns_,
                          needs_labels ? RawLabels::kNeeded : RawLabels::kIfThere)) {}

OwnReader::~OwnReader() = default;

bool OwnReader::next(Example& example) {
  RawRow row;
  if (!rows_->next(row)) return false;
  example = interpreted(path_, std::move(row), task_, columns_);
  return true;
}

int64_t OwnReader::consumed() const { return rows_->consumed(); }

std::string OwnReader::fingerprint() const { return rows_->fingerprint(); }

OwnFile read_own_file(const std::filesystem::path& path, const std::string& format,
                      const TextTask& task, const OwnColumns& columns, bool needs_labels) {
  OwnReader reader(path, format, task, columns, needs_labels);
  OwnFile file;
  for (Example example; reader.next(example);) file.rows.push_back(std::move(example));
  file.fingerprint = reader.fingerprint();
  return file;
}

}  // namespace hydramix
