// SPDX-License-Identifier: Apache-2.0
#include "train/lesson.h"

#include <algorithm>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const SentenceTask& task, const fs::path& data, const std::string& part) {
  return data / task.name / (part + ".tsv");
}

}  // namespace

TaskFiles read_files(const SentenceTask& task, const std::filesystem::path& data) {
  TaskFiles files{read_sentences(task, file_of(task, data, "train"), Labels::kNeeded), {}, {}, {}};
  for (const auto& part : task.dev)
    files.dev.push_back(read_sentences(task, file_of(task, data, part), Labels::kNeeded));
  for (const auto& part : task.test) {
    const auto path = file_of(task, data, part);
    if (!fs::exists(path)) continue;
    files.test.push_back(read_sentences(task, path, Labels::kNone));
    files.test_parts.push_back(part);
  }
  return files;
}

Lesson glue_lesson(const SentenceTask& task, const TaskFiles& files, const Tokenizer& tokenizer,
                   int64_t max_length) {
  const auto encoded = [&](const SentenceFile& file) {
    return encode_sentences(task, file.rows, tokenizer, max_length);
  };
  Lesson lesson{task, encoded(files.train), {}};
  for (std::size_t i = 0; i < task.dev.size(); ++i)
    lesson.dev.push_back({task.dev[i], encoded(files.dev[i])});
  return lesson;
}

Lesson own_lesson(const OwnData& data, const Tokenizer& tokenizer, int64_t max_length) {
  Lesson lesson{data.task, encode_examples(data.task, data.train, tokenizer, max_length), {}};
  lesson.dev.push_back({"dev", encode_examples(data.task, data.dev, tokenizer, max_length)});
  return lesson;
}

std::string labels_text(const TextTask& task) {
  constexpr std::size_t kNamed = 8;
  if (task.kind == LabelKind::kScore) return "a score";
  if (task.kind == LabelKind::kPairs) return "vectors";
  std::vector<std::string> names;
  for (const auto& label : task.labels)
    if (names.size() < kNamed) names.push_back(escaped(clipped(label, 40)));
  if (task.labels.size() > kNamed) names.push_back("...");
  return concat(task.labels.size(),
                task.kind == LabelKind::kClasses  ? " classes"
                : task.kind == LabelKind::kLabels ? " labels"
                                                  : " tags",
                ": ", join(names));
}

int64_t words_cut(const Lesson& lesson) {
  int64_t count = 0;
  for (const auto& part : lesson.dev)
    for (const auto& example : part.examples)
      count += std::count(example.places.begin(), example.places.end(), -1);
  return count;
}

}  // namespace hydramix
