// SPDX-License-Identifier: Apache-2.0
#include "cli/evaluation_table.h"

#include <cstdio>

namespace hydramix {

void print_evaluation(const nlohmann::ordered_json& evaluation) {
  std::printf("loss %.4f   perplexity %.2f   accuracy %.2f %%   %.0f masked positions\n",
              evaluation.at("loss").get<double>(), evaluation.at("perplexity").get<double>(),
              100 * evaluation.at("accuracy").get<double>(), evaluation.at("places").get<double>());
  if (!evaluation.contains("kinds")) return;
  std::printf("\n%-14s %10s %10s %18s\n", "depends on", "positions", "accuracy",
              "expected ceiling");
  for (const auto& [kind, numbers] : evaluation.at("kinds").items())
    std::printf("%-14s %10.0f %8.2f %% %16.2f %%\n", kind.c_str(),
                numbers.at("places").get<double>(), 100 * numbers.at("accuracy").get<double>(),
                100 * numbers.at("achievable").get<double>());
}

}  // namespace hydramix
