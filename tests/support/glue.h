// SPDX-License-Identifier: Apache-2.0
// Generated GLUE files and a model with their vocabulary, for tests of fine-tuning.
#pragma once

#include "base/atomic_file.h"
#include "hydramix/model_folder.h"
#include "language/glue.h"
#include "language/language_documents.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix::test {

inline void write_glue(const std::filesystem::path& folder, const std::vector<std::string>& tasks,
                       const GlueSizes& sizes = {48, 24, 8}) {
  for (const auto& task : tasks)
    for (const auto& file : make_glue_task(task, sizes, 1)) {
      std::filesystem::create_directories((folder / file.path).parent_path());
      write_file(folder / file.path, file.contents);
    }
}

// SST-2 where a single word reveals the label: the easiest possible task.
inline void write_easy_glue(const std::filesystem::path& folder) {
  std::string train = "sentence\tlabel\n";
  for (int i = 0; i < 64; ++i)
    train += i % 2 == 0 ? "the cat is happy .\t1\n" : "the cat is sad .\t0\n";
  std::filesystem::create_directories(folder / "SST-2");
  write_file(folder / "SST-2/train.tsv", train);
  write_file(folder / "SST-2/dev.tsv",
             "sentence\tlabel\nthe dog is happy .\t1\nthe dog is sad .\t0\n");
}

// The same for pairs (RTE), revealed by the second sentence alone.
inline void write_easy_pairs(const std::filesystem::path& folder) {
  const auto rows = [](const std::string& animal, int count) {
    std::string text = "index\tsentence1\tsentence2\tlabel\n";
    for (int i = 0; i < count; ++i)
      text += std::to_string(i) + "\tthe " + animal + " is here .\tthe " + animal +
              (i % 2 == 0 ? " is happy .\tentailment\n" : " is sad .\tnot_entailment\n");
    return text;
  };
  std::filesystem::create_directories(folder / "RTE");
  write_file(folder / "RTE/train.tsv", rows("cat", 64));
  write_file(folder / "RTE/dev.tsv", rows("dog", 2));
}

// An untrained encoder with its tokenizer.
inline void write_encoder(const std::filesystem::path& folder, const std::string& mixer = "hydra",
                          int64_t positions = 0) {
  torch::manual_seed(3);
  auto options = tiny_bert(mixer);
  options.vocab = language_tokenizer().size();
  options.positions = positions;
  options.initial_deviation = 0.1;
  save_model(folder, BertForMaskedLM(options));
  language_tokenizer().save(folder / "tokenizer.json");
}

}  // namespace hydramix::test
