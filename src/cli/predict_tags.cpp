// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_tags.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "base/counted.h"
#include "cli/metrics_table.h"
#include "cli/row_batches.h"
#include "data/input_files.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/text_tagger.h"
#include "tasks/entities.h"
#include "tasks/metrics.h"
#include "tasks/own_data.h"

namespace hydramix {
namespace {

using TagJson = nlohmann::ordered_json;
using Words = TextTagger::Words;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string as_conll(const Words& words, const Words& tags) {
  std::string lines;
  for (std::size_t w = 0; w < words.size(); ++w) lines += words[w] + "\t" + tags[w] + "\n";
  return lines + "\n";
}

std::string as_json_line(const Words& words, const std::vector<TextTagger::Tag>& said,
                         const Words& tags) {
  TagJson line{{"tokens", words}, {"tags", tags}, {"probabilities", TagJson::array()}};
  for (const auto& tag : said) line["probabilities"].push_back(tag.probability);
  line["entities"] = TagJson::array();
  for (const auto& entity : entities(tags)) {
    std::string text;
    for (int64_t w = entity.begin; w < entity.end; ++w)
      text += (text.empty() ? "" : " ") + words[static_cast<std::size_t>(w)];
    line["entities"].push_back(
        {{"type", entity.type}, {"begin", entity.begin}, {"end", entity.end}, {"text", text}});
  }
  return line.dump(-1, ' ', false, TagJson::error_handler_t::replace) + "\n";
}

bool is_plain_text(const std::string& file, const std::string& format) {
  if (format != "auto") return format == "text";
  const std::string name = format_ending(file);
  return name == ".txt" || name == ".text" || file == "-";
}

// Tags sentences, writes them in order, and compares them with the tags that a file has.
class TagJob {
 public:
  TagJob(const std::filesystem::path& folder, const std::vector<std::string>& files,
         const TextJobOptions& job)
      : job_(job),
        results_("predict", job, {"text", "jsonl"}, folder.string(), files),
        tagger_(TextTagger::open(folder, job.model_options())) {
    const auto about = load_classifier_task(folder);
    columns_ = {about.text, "", about.label, ","};
    task_ = own_task(LabelKind::kTokens, columns_, tagger_.tags());
  }

  // One sentence per line, in constant memory; blank lines are left out.
  void tag_texts(const std::vector<std::string>& texts, const std::vector<std::string>& files) {
    TextRows rows(given_texts(texts), files, {.format = "text"});
    for_each_text_batch("predict", rows, results_, job_, [&](std::span<const TextRow> some) {
      std::vector<Words> sentences;
      std::vector<std::size_t> places;  // of the sentences among the rows
      for (std::size_t i = 0; i < some.size(); ++i)
        if (auto words = words_of(some[i].first); !words.empty()) {
          sentences.push_back(std::move(words));
          places.push_back(i);
        }
      try {
        write_tags(sentences);
      } catch (const TextError& error) {
        throw TextError(places[error.index()], some.size(), error.reason());
      }
    });
  }

  // CoNLL or JSON lines.
  void tag_own_file(const std::string& file) {
    OwnReader reader(file, job_.format, task_, columns_, /*needs_labels=*/false);
    for_each_row_batch<Example>(file, reader, results_, [&](std::span<const Example> rows) {
      std::vector<Words> sentences;
      for (const auto& row : rows) sentences.push_back(row.words);
      const auto tagged = write_tags(sentences);
      for (std::size_t i = 0; i < rows.size(); ++i) compare(rows[i], tagged[i]);
    });
  }

  void finish() {
    HYDRAMIX_CHECK(sentences_ > 0 || results_.closed(),
                   "predict: the input has no sentences; expected words. Check the file and "
                   "--format.");
    results_.commit();
    if (untagged_ > 0)
      std::fprintf(stderr, "%s no token among the first %lld of the sentence: tagged O\n",
                   (counted(untagged_, "word") + (untagged_ == 1 ? " has" : " have")).c_str(),
                   static_cast<long long>(tagger_.max_length()));
    if (compared_ == sentences_ && sentences_ > 0)
      std::fputs(metrics_table(scores_.summary(task_)).c_str(), stderr);
  }

 private:
  // Returns the tags that it wrote: O for a word without a token.
  std::vector<Words> write_tags(const std::vector<Words>& sentences) {
    const auto said = tagger_.tag(sentences);
    std::vector<Words> all;
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      Words tags;
      for (const auto& tag : said[i]) {
        untagged_ += tag.tag.empty() ? 1 : 0;
        tags.push_back(tag.tag.empty() ? "O" : tag.tag);
      }
      results_.write(results_.format() == "jsonl" ? as_json_line(sentences[i], said[i], tags)
                                                  : as_conll(sentences[i], tags));
      all.push_back(std::move(tags));
    }
    results_.flush();
    sentences_ += std::ssize(sentences);
    return all;
  }

  void compare(const Example& row, const Words& tags) {
    if (row.targets.empty()) return;
    Words actual;
    for (const double target : row.targets)
      actual.push_back(task_.labels[static_cast<std::size_t>(target)]);
    scores_.add(tags, actual);
    ++compared_;
  }

  const TextJobOptions& job_;
  ResultFile results_;
  TextTagger tagger_;
  OwnColumns columns_;
  TextTask task_;
  TagScores scores_;      // of the sentences that have tags
  int64_t compared_ = 0;  // their number
  int64_t sentences_ = 0, untagged_ = 0;
};

}  // namespace

int predict_tags(const std::filesystem::path& folder, const std::string& text,
                 const std::vector<std::string>& files, const TextJobOptions& job) {
  const auto is_plain = [&](const std::string& file) { return is_plain_text(file, job.format); };
  const auto texts = text.empty() ? Words{} : Words{text};
  TagJob tags(folder, files, job);
  if (std::all_of(files.begin(), files.end(), is_plain)) {
    tags.tag_texts(texts, files);
  } else {
    if (!texts.empty()) tags.tag_texts(texts, {});
    for (const auto& file : files)
      is_plain(file) ? tags.tag_texts({}, {file}) : tags.tag_own_file(file);
  }
  tags.finish();
  return 0;
}

}  // namespace hydramix
