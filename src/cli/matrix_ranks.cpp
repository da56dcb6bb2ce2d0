// SPDX-License-Identifier: Apache-2.0
#include "cli/matrix_ranks.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/formatted.h"
#include "view/chart.h"

namespace hydramix {
namespace {

// Up to eight cuts, the first and the last among them.
std::vector<int64_t> shown_cuts(int64_t cuts) {
  std::set<int64_t> shown;
  for (int64_t k = 0; k < 8; ++k) shown.insert(1 + k * (cuts - 1) / 7);
  return {shown.begin(), shown.end()};
}

int64_t largest(const std::vector<int64_t>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end());
}

std::string table_row(const std::string& title, const std::string& block,
                      const std::vector<int64_t>& ranks, const std::vector<int64_t>& on_diagonal) {
  std::string row = formatted("%-31s %-12s", title, block);
  for (const int64_t cut : shown_cuts(static_cast<int64_t>(ranks.size())))
    row += formatted(" %4lld", ranks[static_cast<std::size_t>(cut - 1)]);
  return row + formatted("  %4lld  %4lld\n", largest(ranks), largest(on_diagonal));
}

ChartLine rank_line(const std::string& name, const std::vector<int64_t>& ranks,
                    const char* note = "at most %lld") {
  ChartLine line{name, "", {}};
  for (std::size_t i = 0; i < ranks.size(); ++i)
    line.points.emplace_back(static_cast<double>(i + 1), static_cast<double>(ranks[i]));
  line.note = formatted(note, largest(ranks));
  return line;
}

// The four matrices of figure 2, and two that are in no such class.
bool is_shown_in_colour(const std::string& name) {
  constexpr std::array kNames{"hydra",     "semiseparable", "add",
                              "attention", "low_rank_dd",   "toeplitz_dd"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::string ranks_table(const RanksByTitle& matrices) {
  std::string table = formatted("%-31s %-12s", "rank, cut before position i", "block   i =");
  for (const int64_t cut : shown_cuts(static_cast<int64_t>(matrices.begin()->second.below.size())))
    table += formatted(" %4lld", cut);
  table += "   max  with diagonal\n";
  for (const auto& [title, ranks] : matrices)
    table += table_row(title, "M[i:, :i]", ranks.below, ranks.below_on_diagonal) +
             table_row("", "M[:i, i:]", ranks.above, ranks.above_on_diagonal);
  return table;
}

void write_ranks_chart(const std::string& path, const RanksByTitle& matrices) {
  std::vector<ChartPanel> panels;
  ChartOptions options{.title = "Ranks of the blocks off the diagonal",
                       .x_label = "cut before position i",
                       .y_label = "rank"};
  if (matrices.size() == 1) {
    const auto& [title, ranks] = *matrices.begin();
    panels.push_back(
        {title,
         {rank_line("below: M[i:, :i]", ranks.below), rank_line("above: M[:i, i:]", ranks.above)}});
  } else {
    std::size_t grey = 0;
    for (const bool below : {true, false}) {
      ChartPanel panel{below ? "below the diagonal: M[i:, :i]" : "above the diagonal: M[:i, i:]",
                       {}};
      grey = 0;
      for (const auto& [title, ranks] : matrices) {
        auto line = below ? rank_line(title, ranks.below) : rank_line(title, ranks.above, "%lld");
        line.strong = title == "hydra";
        line.background = !is_shown_in_colour(title);
        grey += line.background ? 1 : 0;
        panel.lines.push_back(std::move(line));
      }
      // Hydra first: its colour does not depend on the others.
      std::stable_partition(panel.lines.begin(), panel.lines.end(),
                            [](const ChartLine& line) { return line.strong; });
      panels.push_back(std::move(panel));
    }
    options.background_label = formatted("%lld other matrices", grey);
  }
  write_chart(path, panels, options);
}

}  // namespace hydramix
