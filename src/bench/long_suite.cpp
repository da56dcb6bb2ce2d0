// SPDX-License-Identifier: Apache-2.0
// Inference of the Hydra block on very long sequences: time and memory per token should not grow
// with the length. The block is made narrower until the longest sequence fits in memory.
#include <fmt/format.h>

#include "bench/block_suite.h"
#include "bench/memory.h"
#include "hydramix/error.h"

namespace hydramix::bench {
namespace {

// Bytes that a forward of this length takes on top of what is held before.
int64_t forward_memory(const BlockOptions& options, int64_t length) {
  torch::NoGradGuard no_grad;
  const PeakMemory peak;
  const Block block(options);
  block->forward(torch::randn({1, length, options.d_model}));
  return peak.bytes();
}

// d_model, or the largest of its halves, quarters, ... at which the longest length fits.
BlockOptions fitting_block(Bench& bench, const std::vector<int64_t>& lengths) {
  const int64_t probe = std::min<int64_t>(lengths.front(), 8192), longest = lengths.back();
  BlockOptions options = block_options(bench.options);
  const double available = 0.7 * static_cast<double>(available_memory());
  while (true) {
    const double needed = static_cast<double>(forward_memory(options, probe)) *
                          static_cast<double>(longest) / static_cast<double>(probe);
    if (needed <= available) break;
    BlockOptions half = options;
    half.d_model /= 2;
    bool possible = options.d_model % 2 == 0;
    try {
      half.heads();
    } catch (const UsageError&) {
      possible = false;  // no whole number of heads
    }
    HYDRAMIX_CHECK(possible, "bench: L = ", longest, " needs about ",
                   fmt::format("{:.1f} GiB at d_model = {}, of which {:.1f} are free",
                               needed / (1 << 30), options.d_model, available / (1 << 30)),
                   ". Use shorter --lengths or a smaller --headdim.");
    options = half;
  }
  bench.report.said(fmt::format("long: d_model {}, the largest of {} and its halves that fits",
                                options.d_model, bench.options.d_model));
  return options;
}

void long_step(Bench& bench, int threads, const std::vector<int64_t>& lengths) {
  const Options& o = bench.options;
  bench.peak(threads);
  const Threads set(threads);
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  const BlockOptions options = fitting_block(bench, lengths);
  const Block block(options);

  std::vector<double> memory;  // bytes a token
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
    steps.push_back({fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"),
                     [threads, lengths](Bench& bench) { long_step(bench, threads, lengths); }});
  return steps;
}

}  // namespace hydramix::bench
