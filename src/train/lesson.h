// SPDX-License-Identifier: Apache-2.0
// The data of a fine-tuning run: the files of a task of GLUE or of a user, read, checked
// and encoded.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "glue/sentences.h"
#include "tasks/own_data.h"
#include "train/example_training.h"

namespace hydramix {

// The task's files, read and checked. Test files have no labels and are optional.
struct TaskFiles {
  SentenceFile train;
  std::vector<SentenceFile> dev, test;  // in the order of task.dev; the existing ones of task.test
  std::vector<std::string> test_parts;

  std::vector<const SentenceFile*> all() const {
    std::vector<const SentenceFile*> list{&train};
    for (const auto* files : {&dev, &test})
      for (const auto& file : *files) list.push_back(&file);
    return list;
  }
  // Fingerprints of the training and dev files; test files may be added later.
  nlohmann::ordered_json fingerprints() const {
    nlohmann::ordered_json all{{"train", train.fingerprint}};
    for (const auto& file : dev) all[file.path.stem().string()] = file.fingerprint;
    return all;
  }
};
TaskFiles read_files(const SentenceTask& task, const std::filesystem::path& data);

// The examples that a run learns from, of GLUE or of a user's own files.
struct Lesson {
  TextTask task;
  std::vector<EncodedExample> train;
  std::vector<ExamplePart> dev;
};
Lesson glue_lesson(const SentenceTask& task, const TaskFiles& files, const Tokenizer& tokenizer,
                   int64_t max_length);
Lesson own_lesson(const OwnData& data, const Tokenizer& tokenizer, int64_t max_length);

// "3 classes: a, b, c", "a score", ...
std::string labels_text(const TextTask& task);

// Words of the development set that have no token, because the sentence is too long.
int64_t words_cut(const Lesson& lesson);

}  // namespace hydramix
