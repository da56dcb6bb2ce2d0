// SPDX-License-Identifier: Apache-2.0
// hydramix predict: a classifier's answers for texts. Files of GLUE are in predict_glue.cpp, models
// that tag words in predict_tags.cpp.
#include <nlohmann/json.hpp>

#include "base/formatted.h"
#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/own_metrics.h"
#include "cli/predict_glue.h"
#include "cli/predict_tags.h"
#include "cli/text_job.h"
#include "glue/sentence_task.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/text_classifier.h"
#include "tasks/text_task.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct PredictOptions {
  std::string model;
  std::vector<std::string> files;
  std::string task, text, second, second_field;
  TextJobOptions job;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of a classifier (hydramix finetune makes it: OUT/model), or of its run");
    v("files", self.files, Positional{},
      "files of texts, also .gz, .xz or .zst, or - for stdin; for a GLUE task a .tsv file as GLUE "
      "distributes it, with or without labels");
    v("text", self.text, "a text to classify, in place of files");
    v("second", self.second, "second text of a pair; the first is --text");
    v("second_field", self.second_field,
      "field of a JSON line, or column of a table, that holds the second text of a pair");
    v("task", self.task, "GLUE task that a .tsv file belongs to; by default that of the model");
    v("format", self.job.format, Choices{"auto", "text", "jsonl", "tsv", "csv", "conll"},
      "format of the input: a text per line, JSON lines, a table whose first line names its "
      "columns, or for a model that tags words CoNLL; auto: by the file's name, else text, or "
      "CoNLL for tags");
    TextJobOptions::fields_after_format(self.job, v);
  }
};

// A .tsv file is read as GLUE distributes it if a task says how, and no option says otherwise.
bool is_glue_file(const PredictOptions& options, const std::string& trained_for) {
  if (!options.task.empty()) return true;
  return options.files.size() == 1 && text_format_of(options.files[0]) == "tsv" &&
         options.job.format == "auto" && options.job.field == TextJobOptions{}.field &&
         options.second_field.empty() && options.job.to.empty() && is_glue_task(trained_for);
}

// `several`: any number of labels may apply.
std::string as_text(const TextRow& row, const TextClassifier::Answer& answer, bool several) {
  const auto text = row.first + (row.second ? "\t" + *row.second : "") + "\n";
  if (answer.probabilities.empty()) return formatted("%10.4f  ", answer.value) + text;
  if (several)
    return formatted("%-24s  ", answer.labels.empty() ? "-" : join(answer.labels)) + text;
  const double share = answer.probabilities[static_cast<std::size_t>(answer.value)];
  return formatted("%-16s %6.2f %%  ", answer.label, 100 * share) + text;
}

std::string as_json(const TextRow& row, const TextClassifier::Answer& answer,
                    const std::vector<std::string>& labels, bool several) {
  nlohmann::ordered_json line{{"text", row.first}};
  if (row.second) line["second"] = *row.second;
  if (labels.empty()) {
    line["score"] = answer.value;
  } else {
    if (several)
      line["labels"] = answer.labels;
    else
      line["label"] = answer.label;
    for (std::size_t k = 0; k < labels.size(); ++k)
      line["probabilities"][labels[k]] = answer.probabilities[k];
  }
  return line.dump() + "\n";
}

std::string table_head(const std::vector<std::string>& labels, bool several) {
  if (labels.empty()) return "score\n";
  std::string head = several ? "labels" : "label";
  for (const auto& label : labels) head += "\t" + table_cell(label);
  return head + "\n";
}

std::string as_row(const TextClassifier::Answer& answer, bool several) {
  if (answer.probabilities.empty()) return json_number(answer.value) + "\n";
  std::string row = table_cell(several ? join(answer.labels, ",") : answer.label);
  for (const double share : answer.probabilities) row += "\t" + json_number(share);
  return row + "\n";
}

// A classifier of pairs needs pairs. Models of GLUE's tasks and of own files say what they have.
void check_row(const TextRow& row, const TextClassifier& classifier) {
  const bool of_glue = is_glue_task(classifier.task());
  if (!of_glue && classifier.columns().text.empty()) return;
  const bool pairs = of_glue ? sentence_task(classifier.task()).pairs : classifier.takes_pairs();
  HYDRAMIX_CHECK_USAGE(pairs == row.second.has_value(), "predict: ", row.where, ": is a ",
                       row.second ? "pair" : "single text", "; the model was trained for ",
                       classifier.task(), ", which has ",
                       pairs ? "pairs. Give --second, or --second-field for a file."
                             : "single sentences. Give one text.");
}

// The columns of a model's own training file are the usual ones.
TextRowOptions row_options(const PredictOptions& options, const TextClassifier& classifier) {
  TextRowOptions rows{.format = options.job.format,
                      .field = options.job.field,
                      .second_field = options.second_field};
  const auto columns = classifier.columns();
  if (columns.text.empty() || rows.field != TextJobOptions{}.field) return rows;
  rows.field = columns.text;
  if (rows.second_field.empty()) rows.second_field = columns.pair;
  return rows;
}

// The file whose labels may be compared with the answers; empty if there is none.
std::string table_of(const PredictOptions& options) {
  const bool one = options.files.size() == 1 && options.text.empty() && options.files[0] != "-";
  if (!one || options.job.field != TextJobOptions{}.field) return "";
  const auto& format = options.job.format;
  const bool table = (format == "auto" ? text_format_of(options.files[0]) : format) != "text";
  return table ? options.files[0] : "";
}

int predict_texts(const PredictOptions& options, const TextClassifier& classifier,
                  const std::filesystem::path& folder) {
  ResultFile results("predict", options.job, {"text", "jsonl", "tsv"}, options.model,
                     options.files);
  auto given = given_texts(options.text.empty() ? std::vector<std::string>{}
                                                : std::vector<std::string>{options.text});
  if (!options.second.empty()) given.at(0).second = options.second;
  TextRows rows(std::move(given), options.files, row_options(options, classifier));
  OwnMetrics metrics(classifier, folder, {table_of(options), options.job.format});
  const auto& format = results.format();
  const auto& labels = classifier.labels();
  const bool several = classifier.kind() == kind_name(LabelKind::kLabels);
  TextNotes notes;
  if (format == "tsv") results.write(table_head(labels, several));
  for_each_text_batch("predict", rows, results, options.job, [&](std::span<const TextRow> some) {
    std::vector<TextClassifier::Text> texts;
    for (const auto& row : some) {
      check_row(row, classifier);
      texts.push_back({row.first, row.second});
    }
    const auto answers = classifier.classify(texts);
    for (std::size_t i = 0; i < some.size(); ++i) {
      notes.add(some[i], answers[i].tokens);
      metrics.add(answers[i]);
      results.write(format == "text"    ? as_text(some[i], answers[i], several)
                    : format == "jsonl" ? as_json(some[i], answers[i], labels, several)
                                        : as_row(answers[i], several));
    }
    results.flush();
  });
  results.commit();
  notes.print(classifier.max_length());
  metrics.print();
  return 0;
}

int predict(const PredictOptions& options) {
  HYDRAMIX_CHECK_USAGE(options.second.empty() || !options.text.empty(),
                       "predict: --second is given without --text, the first text of the pair.");
  HYDRAMIX_CHECK_USAGE(!options.files.empty() || !options.text.empty(),
                       "predict: no texts. Name files, - for stdin, or give --text.");
  const auto found = classifier_folder(options.model);
  const auto folder = found.empty() ? std::filesystem::path(options.model) : found;
  if (load_classifier_task(folder).kind == kind_name(LabelKind::kTokens))
    return predict_tags(folder, options.text, options.files, options.job);
  HYDRAMIX_CHECK_USAGE(
      options.job.format != "conll", "predict: --format conll holds words, but ", options.model,
      " answers for whole texts. Give a file of texts, or a model that was trained "
      "with finetune --task tokens.");
  const auto classifier = TextClassifier::open(folder, options.job.model_options());
  if (!is_glue_file(options, classifier.task())) return predict_texts(options, classifier, folder);
  HYDRAMIX_CHECK_USAGE(options.files.size() == 1 && options.text.empty(), "predict: with --task ",
                       options.task, " one file is expected, as GLUE distributes it.");
  return predict_glue_file({.model = options.model,
                            .file = options.files.front(),
                            .task = options.task.empty() ? classifier.task() : options.task},
                           classifier, options.job);
}

}  // namespace

Command predict_command() {
  return make_command<PredictOptions>(
      "predict", "classify texts", predict,
      "Examples:\n"
      "  hydramix predict runs/sst2 --text \"a fine film\"\n"
      "  hydramix predict runs/sst2 reviews.jsonl --field body --to jsonl --out answers.jsonl\n"
      "  hydramix predict runs/mrpc --task MRPC glue/MRPC/test.tsv --out MRPC.tsv\n"
      "Writes, in the order of the texts: the label, its probability and the text (text, the "
      "default); JSON lines with the probabilities of all classes, or the score (jsonl); or a "
      "table of label and probabilities (tsv). For a file of a GLUE task it writes 'index' and "
      "'prediction', in the format of GLUE's site; if the file has labels, it prints the metrics "
      "too. A model of hydramix finetune on your own file finds its columns by itself, prints "
      "metrics where they hold labels, and writes the labels that apply, the tags of words, or "
      "how similar the texts of a pair are.");
}

}  // namespace hydramix
