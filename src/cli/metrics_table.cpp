// SPDX-License-Identifier: Apache-2.0
#include "cli/metrics_table.h"

#include "base/formatted.h"
#include "tasks/metrics.h"

namespace hydramix {

std::string metric_text(const std::string& name, double value) {
  return is_share(name) ? formatted("%.2f %%", 100 * value) : formatted("%.4f", value);
}

std::string metrics_table(const nlohmann::ordered_json& metrics, const std::string& indent) {
  std::string table;
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number())
      table += formatted("%s%-12s %10s\n", indent, name, metric_text(name, value.get<double>()));
    if (!value.is_object()) continue;
    for (const auto& [part, its] : value.items())
      table += indent + part + "\n" + metrics_table(its, indent + "  ");
  }
  return table;
}

}  // namespace hydramix
