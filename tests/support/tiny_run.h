// SPDX-License-Identifier: Apache-2.0
// Small data sets and runs of pretraining, made by the command.
#pragma once

#include <string>

#include "base/atomic_file.h"
#include "support/in_process.h"

namespace hydramix::test {

// The words of a short training: two checkpoints and the best one.
inline std::string tiny_pretrain(const std::filesystem::path& out, const std::string& more = "") {
  return "pretrain --device cpu --model.vocab 300 --model.layers 1 --model.block.d-model 16 "
         "--model.block.headdim 8 --model.block.mixer-options.d-state 8 "
         "--train.steps 4 --train.batch 4 --train.micro-batch 3 --train.log-every 1 "
         "--train.evaluate-every 2 --train.checkpoint-every 2 --train.optimizer.rate 1e-3 "
         "--out " +
         out.string() + " " + more;
}

// A run on the built-in language.
inline void make_language_run(const std::filesystem::path& out, const std::string& more = "") {
  const auto r = run_here(
      tiny_pretrain(out, "--data.evaluation-documents 10 --data.language-documents 50 " + more));
  EXPECT_EQ(r.code, 0) << r.err;
}

// folder/vocab.txt and the token shards folder/shards.
inline void make_shards(const std::filesystem::path& folder) {
  const std::string words[] = {"the", "cat", "dog", "sees", "a", "bird", "and", "sleeps"};
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", text;
  for (const auto& word : words) vocabulary += word + "\n";
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 10 + i; ++k) text += words[(i * k + k / 3) % 8] + " ";
    text += "\n\n";
  }
  write_file(folder / "vocab.txt", vocabulary);
  write_file(folder / "text.txt", text);
  const auto r = run_here("tokenize " + (folder / "text.txt").string() + " --vocab " +
                          (folder / "vocab.txt").string() + " --out " +
                          (folder / "shards").string() + " --shard-tokens 400");
  EXPECT_EQ(r.code, 0) << r.err;
}

}  // namespace hydramix::test
