// SPDX-License-Identifier: Apache-2.0
// Inference of the Hydra block on very long sequences: time and memory per token should not grow
// with the length. The number of heads is halved until the longest sequence fits in memory.
#include <algorithm>
#include <cmath>

#include "base/formatted.h"
#include "base/memory.h"
#include "bench/block_suite.h"
#include "hydramix/error.h"

namespace hydramix::bench {
namespace {

// Bytes that a forward of this length allocates.
int64_t forward_memory(const BlockOptions& options, int64_t length) {
  torch::NoGradGuard no_grad;
  const PeakMemory peak;
  const Block block(options);
  block->forward(torch::randn({1, length, options.d_model}));
  return peak.bytes();
}

// All heads, or half of them, a quarter, ...: as many as fit in memory at the longest length.
BlockOptions fitting_block(Bench& bench, const std::vector<int64_t>& lengths) {
  const int64_t probe = std::min<int64_t>(lengths.front(), 8192), longest = lengths.back();
  BlockOptions options = block_options(bench.options);
  constexpr double kGiB = 1 << 30;
  const double available = 0.7 * static_cast<double>(available_memory());
  while (true) {
    const double needed = static_cast<double>(forward_memory(options, probe)) *
                          static_cast<double>(longest) / static_cast<double>(probe);
    if (needed <= available) break;
    const int64_t heads = options.heads().H;
    HYDRAMIX_CHECK(heads > 1, "bench: L = ", longest,
                   formatted(" needs about %.1f GiB with a single head, and %.1f may be taken",
                             needed / kGiB, available / kGiB),
                   ". Use shorter --lengths or a smaller --headdim.");
    const int64_t inner = heads / 2 * options.headdim;
    options.d_model = std::llround(static_cast<double>(inner) / options.expand);
  }
  bench.report.remark(
      formatted("long: d_model %lld (%lld of %lld heads), the widest that fits in memory",
                options.d_model, options.heads().H, block_options(bench.options).heads().H));
  return options;
}

void long_step(Bench& bench, int threads, const std::vector<int64_t>& lengths) {
  const Options& o = bench.options;
  bench.peak(threads);
  const Threads set(threads);
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  const BlockOptions options = fitting_block(bench, lengths);
  const Block block(options);

  std::vector<double> memory;  // bytes per token
  std::vector<Comparison> all;
  for (const int64_t length : lengths) {
    Subject subject;
    subject.suite = "long";
    subject.name = options.mixer;
    subject.length = length;
    subject.threads = threads;
    subject.d_model = options.d_model;
    Comparison c;
    c.subject = subject;
    c.forward_backward = false;
    c.error = verify_block(block, to_verify(subject, o), o.tolerance);
    memory.push_back(static_cast<double>(forward_memory(options, length)) /
                     static_cast<double>(length));
    torch::NoGradGuard no_grad;
    c.work = block_function(block, random_input(subject, options.d_model), subject);
    c.gemms = block_gemms(block, subject);
    all.push_back(std::move(c));
  }
  auto measured = measure(bench, all);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    Measurement& m = measured[i];
    const double tokens = static_cast<double>(m.subject.tokens());
    m.extra = {{"us_per_token", 1e6 / m.tokens_per_s()},
               {"time_per_token_ratio", measured[0].tokens_per_s() / m.tokens_per_s()},
               {"peak_mib", memory[i] * tokens / (1 << 20)},
               {"memory_per_token_ratio", memory[i] / memory[0]}};
    bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> long_suite(const Options& options) {
  const auto lengths = lengths_or(options, {8192, 1 << 20});
  std::vector<Step> steps;
  for (const int threads : thread_counts(options))
    steps.push_back({formatted("%lld thread%s", threads, threads == 1 ? "" : "s"),
                     [threads, lengths](Bench& bench) { long_step(bench, threads, lengths); }});
  return steps;
}

}  // namespace hydramix::bench
