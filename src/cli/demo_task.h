// SPDX-License-Identifier: Apache-2.0
// The demo's last step: the pretrained model learns to judge sentences.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hydramix {

struct DemoTask {
  std::string name;            // of the task: "CoLA"
  std::string question;        // the question about a sentence
  std::string metric;          // "accuracy"
  int64_t train = 0, dev = 0;  // sentences
  double value = 0;            // of the metric, on unseen sentences
  double chance = 0;           // of the metric, for a guess
};

// Fine-tunes the run `model` on a generated task, in folders below `out`. Nullopt after a signal.
std::optional<DemoTask> finetune_demo(const std::filesystem::path& model,
                                      const std::filesystem::path& out, int64_t seed);

}  // namespace hydramix
