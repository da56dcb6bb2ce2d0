// SPDX-License-Identifier: Apache-2.0
// The results of finished stages, row by row and seed by seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reproduce/plan.h"

namespace hydramix {

struct RowResults {
  // For each column one number per finished seed.
  std::map<std::string, std::map<int64_t, double>> numbers;
  std::map<int64_t, std::vector<std::pair<double, double>>> curves;  // (step, loss), by seed
  int64_t parameters = 0, steps = 0;
  double tokens_per_second = 0, images_per_second = 0;  // means over the seeds
  std::vector<std::string> versions;

  // The numbers of the seeds 1 .. count, in order; those that are missing are left out.
  std::vector<double> of(const std::string& column, int64_t count) const;
};

using AllResults = std::map<std::string, RowResults>;  // by row

// Reads the results that exist in OUT.
AllResults read_results(const ReproducePlan& plan);

struct Spread {
  double mean = 0, deviation = 0;  // sample standard deviation; 0 for one number
  int64_t count = 0;
};
Spread spread(const std::vector<double>& numbers);

}  // namespace hydramix
