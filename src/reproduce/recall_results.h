// SPDX-License-Identifier: Apache-2.0
// The results of `reproduce recall`: accuracy over state size and over operations, one panel for
// each length, and as tables. The Hydra paper prints no recall numbers to compare with.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "reproduce/recall_grid.h"

namespace hydramix {

struct RecallPoint {
  std::string mixer;
  int64_t state = 0, length = 0, pairs = 0, parameters = 0;
  double flops_per_token = 0;
  // For each finished seed, the accuracy of the best learning rate, in percent.
  std::vector<double> accuracies;
  std::vector<double> rates;  // and that rate

  double mean() const;
  double deviation() const;  // of a sample; 0 for one seed
};

// Collects the results of finished runs, in the order of the grid.
std::vector<RecallPoint> recall_points(
    const std::vector<std::pair<RecallCell, nlohmann::ordered_json>>& results);

// SVG. Attention is a level line over all states.
std::string recall_state_chart(const std::vector<RecallPoint>& points);
std::string recall_flops_chart(const std::vector<RecallPoint>& points);

// Sections of the report: a table of mixers by state sizes for each length, with the operations
// for a token in brackets; in HTML also the charts and the commands.
std::string recall_markdown(const std::vector<RecallPoint>& points);
std::string recall_html(const std::vector<RecallPoint>& points,
                        const std::vector<std::string>& commands);
// Lines of the report's CSV: table,row,label,mark,column,paper,mean,deviation,seeds.
std::string recall_csv(const std::vector<RecallPoint>& points);
nlohmann::ordered_json recall_json(const std::vector<RecallPoint>& points);

}  // namespace hydramix
