// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_tags.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

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

// The sentences of all inputs, with their tags where a file has them.
std::vector<Example> sentences_of(const std::string& text, const std::vector<std::string>& files,
                                  const TextTask& task, const OwnColumns& columns,
                                  const std::string& format) {
  std::vector<Example> all;
  if (!text.empty()) all.push_back({"", "", words_of(text), {}, 0});
  for (const auto& file : files) {
    if (is_plain_text(file, format)) {
      TextRows rows({}, {file}, {.format = "text"});
      for (TextRow row; rows.next(row);)
        if (auto words = words_of(row.first); !words.empty())
          all.push_back({"", "", std::move(words), {}, 0});
      continue;
    }
    const std::string as = format == "jsonl" ? "jsonl" : format == "auto" ? "auto" : "conll";
    auto read = read_own_file(file, as, task, columns, /*needs_labels=*/false);
    for (auto& row : read.rows) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace

int predict_tags(const std::filesystem::path& folder, const std::string& text,
                 const std::vector<std::string>& files, const TextJobOptions& job) {
  const auto tagger = TextTagger::open(folder, job.model_options());
  const auto about = load_classifier_task(folder);
  const OwnColumns columns{about.text, "", about.label, ","};
  const auto task = own_task(LabelKind::kTokens, columns, tagger.tags());
  ResultFile results("predict", job, {"text", "jsonl"}, files);
  const auto sentences = sentences_of(text, files, task, columns, job.format);
  HYDRAMIX_CHECK(!sentences.empty(), "predict: no sentences in ",
                 files.empty() ? "--text" : files.front(), ".");
  std::vector<Words> predicted, actual;
  int64_t untagged = 0;
  {
    constexpr std::size_t kAtOnce = 256;
    Progress progress("predict", std::ssize(sentences), "sentences");
    for (std::size_t first = 0; first < sentences.size(); first += kAtOnce) {
      std::vector<Words> some;
      for (std::size_t i = first; i < std::min(first + kAtOnce, sentences.size()); ++i)
        some.push_back(sentences[i].words);
      const auto tagged = tagger.tag(some);
      for (std::size_t k = 0; k < some.size(); ++k) {
        Words tags;
        for (const auto& tag : tagged[k]) {
          untagged += tag.tag.empty() ? 1 : 0;
          tags.push_back(tag.tag.empty() ? "O" : tag.tag);
        }
        results.write(results.format() == "jsonl" ? as_json_line(some[k], tagged[k], tags)
                                                  : as_conll(some[k], tags));
        const auto& targets = sentences[first + k].targets;
        if (targets.empty()) continue;
        predicted.push_back(std::move(tags));
        actual.emplace_back();
        for (const double target : targets)
          actual.back().push_back(task.labels[static_cast<std::size_t>(target)]);
      }
      progress.advance_to(std::ssize(sentences) < static_cast<int64_t>(first + kAtOnce)
                              ? std::ssize(sentences)
                              : static_cast<int64_t>(first + kAtOnce));
    }
  }
  results.commit();
  if (untagged > 0)
    std::fprintf(stderr, "%lld words have no token within %lld and are tagged O\n",
                 static_cast<long long>(untagged), static_cast<long long>(tagger.max_length()));
  if (actual.size() == sentences.size())
    std::fputs(metrics_table(tag_scores(task, predicted, actual)).c_str(), stderr);
  return 0;
}

}  // namespace hydramix
