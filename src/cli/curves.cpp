// SPDX-License-Identifier: Apache-2.0
// hydramix curves: a chart of the metrics of runs.
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/spelling.h"
#include "cli/commands.h"
#include "hydramix/error.h"
#include "train/metrics.h"
#include "view/chart.h"

namespace hydramix {
namespace {

struct CurvesOptions {
  std::vector<std::string> runs;
  std::string metric = "evaluation/loss", out = "curves.svg", title;
  int64_t from = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("runs", self.runs, Positional{}, Required{}, "folders of runs (pretrain, finetune)");
    v("metric", self.metric, "metric to draw over the steps: a key of metrics.jsonl");
    v("out", self.out, "SVG file to write");
    v("title", self.title, "title of the chart; by default the metric");
    v("from", self.from, Range{0, 1LL << 40}, "first step to draw");
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
                 ": is not there; expected the folder of a run.");
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

int curves(const CurvesOptions& options) {
  std::vector<ChartLine> lines;
  for (const auto& run : options.runs) lines.push_back(curve_of(run, options));
  const auto names = short_names(options.runs);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].name = names[i];
  const std::string title = options.title.empty() ? options.metric : options.title;
  write_chart(options.out, {{"", "", lines}},
              {.title = title, .x_label = "step", .y_label = options.metric, .from_zero = false});
  std::printf("wrote %s: %zu curves\n", options.out.c_str(), lines.size());
  return 0;
}

}  // namespace

Command curves_command() {
  return make_command<CurvesOptions>(
      "curves", "draw losses and metrics of runs over their steps", curves,
      "  hydramix curves runs/small/hydra runs/small/mamba --out curves.svg\n"
      "  hydramix curves runs/mrpc --metric evaluation/score");
}

}  // namespace hydramix
