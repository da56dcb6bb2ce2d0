// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_tags.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "base/counted.h"
#include "cli/metrics_table.h"
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

struct TaggedSentence {
  Words words;
  std::vector<double> targets;  // a tag for each word, or none
  std::string where;            // for messages: "people.conll: line 3"
};

// The sentences of a file, with their tags where it has them.
std::vector<TaggedSentence> sentences_in(const std::string& file, const std::string& format,
                                         const TextTask& task, const OwnColumns& columns) {
  std::vector<TaggedSentence> sentences;
  if (is_plain_text(file, format)) {
    TextRows rows({}, {file}, {.format = "text"});
    for (TextRow row; rows.next(row);)
      if (auto words = words_of(row.first); !words.empty())
        sentences.push_back({std::move(words), {}, row.where});
    return sentences;
  }
  auto read = read_own_file(file, format, task, columns, /*needs_labels=*/false);
  for (auto& row : read.rows)
    sentences.push_back(
        {std::move(row.words), std::move(row.targets), concat(file, ": line ", row.line)});
  return sentences;
}

std::vector<std::vector<TextTagger::Tag>> tags_of(std::span<const TaggedSentence> sentences,
                                                  const TextTagger& tagger) {
  std::vector<Words> words;
  for (const auto& sentence : sentences) words.push_back(sentence.words);
  try {
    return tagger.tag(words);
  } catch (const TextError& error) {
    throw Error(concat("predict: ", sentences[error.index()].where, ": ", error.reason()));
  }
}

}  // namespace

int predict_tags(const std::filesystem::path& folder, const std::string& text,
                 const std::vector<std::string>& files, const TextJobOptions& job) {
  const auto tagger = TextTagger::open(folder, job.model_options());
  const auto about = load_classifier_task(folder);
  const OwnColumns columns{about.text, "", about.label, ","};
  const auto task = own_task(LabelKind::kTokens, columns, tagger.tags());
  ResultFile results("predict", job, {"text", "jsonl"}, files);
  std::vector<TaggedSentence> sentences;
  if (auto words = words_of(text); !words.empty())
    sentences.push_back({std::move(words), {}, "--text"});
  for (const auto& file : files)
    for (auto& sentence : sentences_in(file, job.format, task, columns))
      sentences.push_back(std::move(sentence));
  HYDRAMIX_CHECK(!sentences.empty(), "predict: no sentences in ",
                 files.empty() ? "--text" : files.front(), ".");
  std::vector<Words> predicted, actual;
  int64_t untagged = 0;
  {
    constexpr std::size_t kAtOnce = 256;
    Progress progress("predict", std::ssize(sentences), "sentences");
    for (std::size_t first = 0; first < sentences.size(); first += kAtOnce) {
      const auto some =
          std::span(sentences).subspan(first, std::min(kAtOnce, sentences.size() - first));
      const auto tagged = tags_of(some, tagger);
      for (std::size_t k = 0; k < some.size(); ++k) {
        const auto& words = some[k].words;
        Words tags;
        for (const auto& tag : tagged[k]) {
          untagged += tag.tag.empty() ? 1 : 0;
          tags.push_back(tag.tag.empty() ? "O" : tag.tag);
        }
        results.write(results.format() == "jsonl" ? as_json_line(words, tagged[k], tags)
                                                  : as_conll(words, tags));
        const auto& targets = some[k].targets;
        if (targets.empty()) continue;
        predicted.push_back(std::move(tags));
        actual.emplace_back();
        for (const double target : targets)
          actual.back().push_back(task.labels[static_cast<std::size_t>(target)]);
      }
      progress.advance_to(static_cast<int64_t>(first + some.size()));
    }
  }
  results.commit();
  if (untagged > 0)
    std::fprintf(stderr, "%s no token among the first %lld of the sentence: tagged O\n",
                 (counted(untagged, "word") + (untagged == 1 ? " has" : " have")).c_str(),
                 static_cast<long long>(tagger.max_length()));
  if (actual.size() == sentences.size())
    std::fputs(metrics_table(tag_scores(task, predicted, actual)).c_str(), stderr);
  return 0;
}

}  // namespace hydramix
