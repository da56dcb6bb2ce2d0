// SPDX-License-Identifier: Apache-2.0
// Every registered mixer, mix() alone, against the in_proj that would feed it. With --scaling: the
// growth of its time with the length, as a table and a chart.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/formatted.h"
#include "base/memory.h"
#include "bench/mixer_function.h"
#include "bench/scaling_chart.h"
#include "hydramix/error.h"
#include "mixers/paper_cost.h"

namespace hydramix::bench {
namespace {

bool is_quadratic(const std::string& name) { return mixer_info(name).cost == "O(L^2)"; }

// The measurements of one mixer, length by length, and a forecast for the next length.
class Growth {
 public:
  Growth(std::string name, int64_t heads) : name_(std::move(name)), heads_(heads) {}

  void add(int64_t length, double round_seconds, double bytes) {
    seconds_.emplace_back(length, round_seconds);
    bytes_.emplace_back(length, std::max(bytes, 1.0));
  }

  // The reason to skip this length; empty if there is none.
  std::string reason_to_skip(int64_t length, const Options& o) const {
    const double seconds = predicted(seconds_, length) * static_cast<double>(o.rounds + 1);
    if (seconds > o.max_seconds)
      return formatted("would take about %.0f s, more than --max-seconds", seconds);
    // Without measurements: six matrices, as many as backward through a dense one holds.
    const double unknown = is_quadratic(name_) ? 24.0 * static_cast<double>(heads_ * length) *
                                                     static_cast<double>(length)
                                               : 0;
    const double bytes = bytes_.empty() ? unknown : predicted(bytes_, length);
    const auto available = static_cast<double>(available_memory());
    if (bytes > 0.6 * available)
      return formatted("would take about %.1f GiB, %.1f are free", bytes / (1 << 30),
                       available / (1 << 30));
    return "";
  }

 private:
  // Along the line through the last two points on log axes, or that of the mixer's cost.
  double predicted(const Points& points, int64_t length) const {
    if (points.empty()) return 0;
    double slope = is_quadratic(name_) ? 2 : 1;
    if (points.size() > 1) slope = *log_log_slope({points[points.size() - 2], points.back()});
    return points.back().second *
           std::pow(static_cast<double>(length) / points.back().first, std::clamp(slope, 1.0, 2.5));
  }

  std::string name_;
  int64_t heads_;
  Points seconds_, bytes_;
};

// The results over all lengths, for the table and the chart.
struct Series {
  PassTimes points;
  std::string skipped;
};
using Scaling = std::map<std::string, Series>;

std::vector<Measurement> measure_mixer(Bench& bench, const std::string& name,
                                       const BlockOptions& block, const Subject& subject) {
  const Options& o = bench.options;
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  Comparison c;
  c.subject = subject;
  c.error = verify_mixer(name, block, to_verify(subject, o), o.tolerance);
  MixerOptions options = block.mixer_options;
  options.max_length = subject.length;
  const auto mixer = make_mixer(name, block.heads(), options);
  c.work = mixer_function(mixer, subject);
  // A matrix without structure needs the dense product. For the others there is no single count.
  if (is_quadratic(name))
    c.work.flops =
        2.0 * static_cast<double>(c.work.output_entries) * static_cast<double>(subject.length);
  // A fixed matrix has no gradient.
  if (mixer->parameters().empty() && mixer->params_width() == 0) c.work.backward_flops = 1;
  c.gemms = projection_gemm(*mixer, subject);
  c.forward = o.forward();
  c.forward_backward = o.forward_backward();
  return measure(bench, c);
}

Series run_mixer(Bench& bench, const std::string& name, const BlockOptions& block,
                 const std::vector<Subject>& lengths) {
  Series series;
  Growth growth(name, block.heads().H);
  for (Subject subject : lengths) {
    const std::string reason = growth.reason_to_skip(subject.length, bench.options);
    if (!reason.empty()) {
      series.skipped = formatted("from %lld: %s", subject.length, reason);
      bench.report.remark(formatted("%s: skipped %s", name, series.skipped));
      break;
    }
    subject.name = name;
    bench.peak(subject.threads);  // before the peak memory is measured
    const PeakMemory peak;
    double round = 0;
    auto measured = measure_mixer(bench, name, block, subject);
    const auto bytes = static_cast<double>(peak.bytes());
    for (auto& m : measured) {
      round += 1e-3 * (m.ms + m.gemm_ms);
      m.extra.emplace_back("peak_mib", bytes / (1 << 20));
      series.points[m.subject.pass].emplace_back(static_cast<double>(subject.length), m.ms);
      bench.report.measured(m);
    }
    growth.add(subject.length, round, bytes);
  }
  return series;
}

std::string slope_text(const Series& series, const std::string& pass) {
  const auto found = series.points.find(pass);
  const auto slope = found == series.points.end() ? std::nullopt : log_log_slope(found->second);
  return slope ? formatted("%.2f", *slope) : "-";
}

void print_slopes(const Report& report, const Scaling& scaling) {
  report.remark("");
  report.remark("slope of log time over log length (1: linear, 2: quadratic)");
  report.remark(formatted("%-29s %-12s %-10s %6s %8s  %s", "mixer", "paper", "mix()", "fwd",
                          "fwd+bwd", "skipped"));
  for (const auto& [name, series] : scaling) {
    const MixerInfo& info = mixer_info(name);
    const auto paper = paper_cost(info);
    report.remark(formatted("%-29s %-12s %-10s %6s %8s  %s", name, paper.empty() ? "-" : paper,
                            info.cost, slope_text(series, "forward"),
                            slope_text(series, "forward_backward"),
                            series.skipped.empty() ? "-" : series.skipped));
  }
}

void draw(const Scaling& scaling, const std::string& path) {
  std::map<std::string, PassTimes> mixers;
  for (const auto& [name, series] : scaling) mixers[name] = series.points;
  write_scaling_chart(path, mixers);
}

std::vector<Step> scaling_steps(const Options& options, const std::vector<std::string>& names) {
  HYDRAMIX_CHECK_USAGE(options.threads.size() <= 1, "--scaling takes one number of --threads; got ",
                       options.threads.size(), ". Run it once for each.");
  Options sizes = options;
  sizes.d_model = 64;
  sizes.expand = 2;
  sizes.headdim = 64;
  sizes.lengths = lengths_or(options, {1024, 2048, 4096, 8192, 16384, 32768, 65536});
  if (sizes.threads.empty()) sizes.threads = {1};
  const auto lengths = subjects(sizes, "mixers", /*with_packed=*/false);
  const auto scaling = std::make_shared<Scaling>();
  std::vector<Step> steps;
  for (const auto& name : names)
    steps.push_back({name, [=](Bench& bench) {
                       (*scaling)[name] =
                           run_mixer(bench, name, block_options(sizes, name), lengths);
                     }});
  steps.push_back({"slopes", [=](Bench& bench) {
                     print_slopes(bench.report, *scaling);
                     const std::string svg = options.svg.empty() ? "scaling.svg" : options.svg;
                     draw(*scaling, svg);
                     bench.report.remark("wrote " + svg);
                   }});
  return steps;
}

}  // namespace

std::vector<Step> mixers_suite(const Options& options) {
  const auto names = options.mixers.empty() ? mixer_names() : options.mixers;
  if (options.scaling) return scaling_steps(options, names);
  Options usual = options;
  usual.lengths = lengths_or(options, {512});
  std::vector<Step> steps;
  for (const int threads : thread_counts(options)) {
    usual.threads = {threads};
    const auto lengths = subjects(usual, "mixers", /*with_packed=*/false);
    for (const auto& name : names)
      steps.push_back({name, [=](Bench& bench) {
                         run_mixer(bench, name, block_options(bench.options, name), lengths);
                       }});
  }
  return steps;
}

}  // namespace hydramix::bench
