// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.h"
#include "base/formatted.h"

#include <algorithm>

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"

namespace hydramix::bench {

const Peak& Bench::peak(int threads) {
  const bool known = machine.knows(threads);
  const Peak& peak = machine.peak(threads);
  if (!known) {
    const ProductRates& rates = peak.products;
    const auto share = [&](double rate) { return 100 * rate / rates.fma_peak; };
    report.remark(formatted(
        "this machine, %lld thread%s, %s: FMA peak %.1f GFLOP/s, matrix products %.1f (%.0f %%), "
        "LibTorch's %.1f (%.0f %%), memory %.1f GB/s",
        threads, threads == 1 ? "" : "s", kernels::instruction_set(), rates.fma_peak, rates.ours,
        share(rates.ours), rates.libtorch, share(rates.libtorch), peak.gigabytes_per_s));
    for (const auto& warning : product_warnings(rates)) report.remark("warning: " + warning);
  }
  return peak;
}

std::vector<Step> suite_steps(const std::string& suite, const Options& options) {
  HYDRAMIX_CHECK_USAGE(!options.scaling || suite == "mixers",
                       "--scaling belongs to --suite mixers; got --suite ", suite, ".");
  HYDRAMIX_CHECK_USAGE(options.svg.empty() || options.scaling,
                       "--svg is the drawing of --scaling; got --svg ", options.svg,
                       " without it. Add --suite mixers --scaling.");
  block_options(options).heads();
  if (suite == "product") return product_suite(options);
  if (suite == "block") return block_suite(options);
  if (suite == "scan") return scan_suite(options);
  if (suite == "conv") return conv_suite(options);
  if (suite == "mixers") return mixers_suite(options);
  if (suite == "model") return model_suite(options);
  if (suite == "cores") return cores_suite(options);
  if (suite == "gpu") return gpu_suite(options);
  if (suite == "images") return images_suite(options);
  return long_suite(options);
}

std::vector<int> thread_counts(const Options& options) {
  std::vector<int> counts(options.threads.begin(), options.threads.end());
  if (counts.empty()) counts = {1, torch::get_num_threads()};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<int64_t> lengths_or(const Options& options, std::vector<int64_t> usual) {
  if (!options.lengths.empty()) usual = options.lengths;
  std::sort(usual.begin(), usual.end());
  usual.erase(std::unique(usual.begin(), usual.end()), usual.end());
  return usual;
}

std::vector<Subject> subjects(const Options& options, const std::string& suite, bool with_packed) {
  std::vector<Subject> all;
  const auto lengths = lengths_or(options, {512, 2048});
  for (const int threads : thread_counts(options)) {
    Subject subject;
    subject.suite = suite;
    subject.batch = options.batch;
    subject.threads = threads;
    subject.d_model = options.d_model;
    for (const int64_t length : lengths) {
      subject.length = length;
      all.push_back(subject);
    }
    if (!with_packed || options.packed == 0) continue;
    subject.batch = options.packed;
    subject.length = lengths.front();
    subject.packed = true;
    all.push_back(subject);
  }
  return all;
}

std::string title(const Subject& subject) {
  return formatted("%lld x %lld%s, %lld thread%s", subject.batch, subject.length,
                   subject.packed ? " packed" : "", subject.threads,
                   subject.threads == 1 ? "" : "s");
}

Subject to_verify(const Subject& subject, const Options& options) {
  Subject small = subject;
  small.batch = std::min<int64_t>(subject.batch, 2);
  small.length = std::min(subject.length, options.check_length);
  return small;
}

torch::Tensor random_input(const Subject& subject, int64_t width) {
  return subject.packed ? torch::randn({1, subject.tokens(), width})
                        : torch::randn({subject.batch, subject.length, width});
}

Layout layout_of(const Subject& subject) {
  if (!subject.packed) return {};
  return Layout::packed(torch::arange(subject.batch + 1) * subject.length);
}

BlockOptions block_options(const Options& options, const std::string& mixer) {
  BlockOptions block;
  block.mixer = mixer;
  block.d_model = options.d_model;
  block.expand = options.expand;
  block.headdim = options.headdim;
  block.d_conv = options.d_conv;
  block.mixer_options.d_state = options.d_state;
  return block;
}

double scan_flops(int64_t tokens, const BlockOptions& options, int64_t directions) {
  return 5.0 * static_cast<double>(tokens * directions * options.heads().channels() *
                                   options.mixer_options.d_state);
}

namespace {

// Indices of a comparison's alternatives in the list of all; kNone if not requested.
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
struct Places {
  std::size_t forward = kNone, gemm_forward = kNone;
  std::size_t both = kNone, gemm_both = kNone;
  std::size_t backward = kNone;
};

Alternative forward(const Function& f) {
  return [&f] {
    torch::NoGradGuard no_grad;
    f.forward();
  };
}

Alternative forward_backward(const Function& f) {
  return [&f, d_outputs = std::vector<torch::Tensor>()]() mutable {
    const auto outputs = f.forward();
    if (d_outputs.empty()) d_outputs = output_gradients(outputs);  // in the untimed round
    f.gradients(outputs, d_outputs);
  };
}

// Runs backward on a retained graph: forward_backward minus forward would be mostly noise.
Alternative backward_alone(const Function& f) {
  return [&f, outputs = std::vector<torch::Tensor>(),
          d_outputs = std::vector<torch::Tensor>()]() mutable {
    if (outputs.empty()) {
      outputs = f.forward();
      d_outputs = output_gradients(outputs);
    }
    f.gradients(outputs, d_outputs, /*keep_graph=*/true);
  };
}

Places add_alternatives(const Comparison& c, std::vector<Alternative>& all) {
  const auto add = [&](Alternative alternative) {
    all.push_back(std::move(alternative));
    return all.size() - 1;
  };
  Places at;
  const bool alone = c.backward_alone && c.forward_backward;
  if (c.forward || alone) at.forward = add(forward(c.work));
  if (c.forward) at.gemm_forward = add(c.floor_forward ? c.floor_forward : forward(c.gemms));
  if (c.forward_backward) at.both = add(forward_backward(c.work));
  if (c.forward_backward)
    at.gemm_both =
        add(c.floor_forward_backward ? c.floor_forward_backward : forward_backward(c.gemms));
  if (alone) at.backward = add(backward_alone(c.work));
  return at;
}

}  // namespace

std::vector<Measurement> measure(Bench& bench, const Comparison& comparison) {
  return measure(bench, std::vector<Comparison>{comparison});
}

std::vector<Measurement> measure(Bench& bench, const std::vector<Comparison>& comparisons) {
  const int threads = comparisons.front().subject.threads;
  const Peak peak = bench.peak(threads);
  const Threads set(threads);
  std::vector<Alternative> alternatives;
  std::vector<Places> places;
  for (const auto& c : comparisons) places.push_back(add_alternatives(c, alternatives));
  const auto times = time_interleaved(alternatives, bench.options.timer());

  const auto ms = [&](std::size_t place) { return 1e3 * times[place].seconds; };
  std::vector<Measurement> out;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const Comparison& c = comparisons[i];
    const Places& at = places[i];
    const auto record = [&](const std::string& pass, std::size_t work, std::size_t gemm) {
      Measurement m;
      m.subject = c.subject;
      m.subject.pass = pass;
      m.work = c.work.work(pass);
      m.ms = ms(work);
      m.gemm_ms = ms(gemm);
      m.gemm_flops = c.gemms.work(pass).flops;
      m.rounds = times[work].rounds;
      m.error = c.error;
      m.peak = peak;
      out.push_back(std::move(m));
    };
    if (c.forward) record("forward", at.forward, at.gemm_forward);
    if (c.forward_backward) record("forward_backward", at.both, at.gemm_both);
    if (at.backward != kNone)
      out.back().extra = {{"backward_ms", ms(at.backward)},
                          {"backward_ratio", ms(at.backward) / ms(at.forward)}};
  }
  return out;
}

}  // namespace hydramix::bench
