// SPDX-License-Identifier: Apache-2.0
// hydramix curves: a chart of the metrics of runs.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "train/metrics.h"
#include "view/chart.h"

namespace hydramix {
namespace {

struct CurvesOptions {
  std::vector<std::string> runs;
  std::string metric = "evaluation/loss", out = "curves.svg", title;
  int64_t from = 0;
  bool seeds = false, log = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("runs", self.runs, Positional{}, Required{}, "folders of runs (pretrain, finetune)");
    v("metric", self.metric, "metric to draw over the steps: a key of metrics.jsonl");
    v("out", self.out, "SVG file to write");
    v("title", self.title, "title of the chart; by default the metric");
    v("from", self.from, Range{0, 1LL << 40}, "first step to draw");
    v("seeds", self.seeds,
      "one curve, mean and range, for runs whose names differ only in a number after the last "
      "hyphen: hydra-1, hydra-2");
    v("log", self.log, "logarithmic axis for the metric");
  }
};

// The shortest endings of the paths that tell them apart.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> parts;
  std::size_t most = 1;
  for (const auto& path : paths) {
    parts.emplace_back();
    for (const auto& part : std::filesystem::path(path).lexically_normal())
      if (!part.empty()) parts.back().push_back(part.string());
    most = std::max(most, parts.back().size());
  }
  std::vector<std::string> names;
  for (std::size_t count = 1; count <= most; ++count) {
    names.clear();
    for (const auto& of : parts)
      names.push_back(join(
          {of.end() - static_cast<std::ptrdiff_t>(std::min(count, of.size())), of.end()}, "/"));
    if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  }
  throw UsageError(concat("curves: a run stands twice in ", join(paths), ". Name each once."));
}

// The points of a run, step by step. Skipped steps have no value.
ChartLine curve_of(const std::filesystem::path& run, const CurvesOptions& options) {
  const auto path = run / "metrics.jsonl";
  HYDRAMIX_CHECK(std::filesystem::exists(path), path.string(),
                 ": does not exist; expected the folder of a run.");
  ChartLine line;
  read_metrics(
      path,
      [&](const std::string&, const nlohmann::json& object) {
        if (!object.contains(options.metric)) return;
        const auto& value = object[options.metric];
        const auto step = object["step"].get<int64_t>();
        if (value.is_number() && step >= options.from)
          line.points.emplace_back(static_cast<double>(step), value.get<double>());
      },
      [](const std::string& warning) { std::fprintf(stderr, "%s\n", warning.c_str()); });
  HYDRAMIX_CHECK(!line.points.empty(), path.string(), ": has no '", options.metric, "' from step ",
                 options.from,
                 " on. Its keys are in the file's lines: loss, "
                 "evaluation/loss, ...");
  return line;
}

// hydra-2 -> hydra; a name without a number stays as it is.
std::string without_seed(const std::string& name) {
  const auto last = name.find_last_not_of("0123456789");
  return last != std::string::npos && last > 0 && last + 1 < name.size() && name[last] == '-'
             ? name.substr(0, last)
             : name;
}

// Runs that differ only in their seeds as one line: at each step that all of them have, their mean
// and range.
std::vector<ChartLine> mean_over_seeds(const std::vector<ChartLine>& runs) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ChartLine*>> groups;
  for (const auto& run : runs) {
    const auto name = without_seed(run.name);
    if (groups[name].empty()) order.push_back(name);
    groups[name].push_back(&run);
  }
  std::vector<ChartLine> lines;
  for (const auto& name : order) {
    const auto& members = groups[name];
    std::map<double, std::vector<double>> steps;
    for (const auto* run : members)
      for (const auto& [step, value] : run->points) steps[step].push_back(value);
    ChartLine line;
    line.name = concat(name, ", ", members.size(), members.size() == 1 ? " seed" : " seeds");
    for (const auto& [step, values] : steps) {
      if (values.size() != members.size()) continue;
      double sum = 0;
      for (const double value : values) sum += value;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      line.points.emplace_back(step, sum / static_cast<double>(values.size()));
      line.range.emplace_back(*low, *high);
    }
    HYDRAMIX_CHECK(!line.points.empty(), "curves: the ", members.size(), " runs of ", name,
                   " have no step in common. Draw them without --seeds.");
    lines.push_back(std::move(line));
  }
  return lines;
}

int curves(const CurvesOptions& options) {
  for (const auto& run : options.runs)
    check_not_an_input("--out", options.out, {std::filesystem::path(run) / "metrics.jsonl"});
  std::vector<ChartLine> lines;
  for (const auto& run : options.runs) lines.push_back(curve_of(run, options));
  const auto names = short_names(options.runs);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].name = names[i];
  if (options.seeds) lines = mean_over_seeds(lines);
  const std::string title = options.title.empty() ? options.metric : options.title;
  write_chart(options.out, {{"", lines}},
              {.title = title,
               .x_label = "step",
               .y_label = options.metric,
               .log_y = options.log,
               .from_zero = false});
  std::printf("wrote %s: %s\n", options.out.c_str(), counted(std::ssize(lines), "curve").c_str());
  return 0;
}

}  // namespace

Command curves_command() {
  return make_command<CurvesOptions>(
      "curves", "draw losses and metrics of runs over their steps", curves,
      "Examples:\n"
      "  hydramix curves runs/small/hydra-* runs/small/mamba-* --seeds --out curves.svg\n"
      "  hydramix curves runs/mrpc --metric evaluation/score");
}

}  // namespace hydramix
