// SPDX-License-Identifier: Apache-2.0
#include "bench/scaling_chart.h"

#include <algorithm>
#include <array>

#include "base/formatted.h"
#include "view/chart.h"

namespace hydramix::bench {
namespace {

constexpr std::size_t kMostInColour = 8;
// Hydra, Mamba, attention, and one mixer of O(L log L).
constexpr std::array kWellKnown{"hydra", "semiseparable", "attention_dd", "toeplitz_dd"};

bool is_well_known(const std::string& name) {
  return std::find(kWellKnown.begin(), kWellKnown.end(), name) != kWellKnown.end();
}

}  // namespace

void write_scaling_chart(const std::filesystem::path& path,
                         const std::map<std::string, PassTimes>& mixers) {
  const auto known = static_cast<std::size_t>(std::count_if(
      mixers.begin(), mixers.end(), [](const auto& mixer) { return is_well_known(mixer.first); }));
  const bool many = mixers.size() > kMostInColour && known > 0;
  std::vector<ChartPanel> panels;
  for (const std::string pass : {"forward", "forward_backward"}) {
    ChartPanel panel;
    panel.title = pass == "forward" ? "forward" : "forward and backward";
    for (const auto& [name, passes] : mixers) {
      const auto times = passes.find(pass);
      if (times == passes.end() || times->second.empty()) continue;
      ChartLine line{name, "", times->second};
      if (const auto slope = log_log_slope(line.points))
        line.note = formatted(panels.empty() ? "slope %.2f" : "%.2f", *slope);
      line.strong = name == "hydra";
      line.background = many && !is_well_known(name);
      panel.lines.push_back(std::move(line));
    }
    // Hydra first: its colour does not depend on the others.
    std::stable_partition(panel.lines.begin(), panel.lines.end(),
                          [](const ChartLine& line) { return line.strong; });
    if (!panel.lines.empty()) panels.push_back(std::move(panel));
  }
  if (panels.empty()) return;
  write_chart(path, panels,
              {.title = "Time of mix() over the length",
               .x_label = "length L",
               .y_label = "ms",
               .background_label = formatted("%lld other mixers", mixers.size() - known),
               .log_x = true,
               .log_y = true,
               .guides = true});
}

}  // namespace hydramix::bench
