// SPDX-License-Identifier: Apache-2.0
// The page that hydramix demo writes: one self-contained HTML file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/demo_task.h"
#include "view/matrix_image.h"

namespace hydramix {

struct DemoModel {
  std::string name;     // "hydra"
  std::string summary;  // one line about it
  int64_t parameters = 0;
  double tokens_per_second = 0;
  nlohmann::ordered_json evaluation;              // of the trained model (train/masked_lm.h)
  std::vector<std::pair<double, double>> losses;  // (step, loss) in training
  std::vector<MatrixPicture> matrices;            // of all heads, for one text, with its tokens
  std::size_t shown = 0;                          // the one that takes most from other words
};

struct DemoFill {
  std::string text;                  // with [MASK]
  std::vector<std::string> answers;  // of each model, the likeliest word
  std::string right;                 // the masked word
  std::string kind;
};

struct DemoReport {
  std::vector<DemoModel> models;
  std::vector<DemoFill> fills;
  DemoTask task;        // on which the first model was fine-tuned
  std::string command;  // that made the report
};

// Kinds of dependency that demo and report show, in their order, and the heads of their columns.
std::vector<std::pair<std::string, std::string>> demo_columns();

void write_demo_report(const std::filesystem::path& path, const DemoReport& report);

}  // namespace hydramix
