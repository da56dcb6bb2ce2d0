// SPDX-License-Identifier: Apache-2.0
// Causal cores alone on the CPU, in one direction, at the sizes of suite gpu: the recurrences, with
// keys, queries, gates and steps given. They are compared with SSD, the scan of Mamba-2, with as
// many states, whose heads share keys and queries. The first row compares it with an SSD that, as
// RetNet and GLA, has keys and queries for every head. S6, whose decays differ for all states, is
// compared with the exponentials and multiply-adds that it cannot avoid.
#include <algorithm>
#include <cmath>

#include "bench/mixer_function.h"
#include "kernels/cpu/fma.h"
#include "ops/complex_scan.h"
#include "ops/gated_scan.h"
#include "ops/parallel.h"
#include "ops/scan.h"
#include "ops/selective_scan.h"

namespace hydramix::bench {
namespace {

using torch::Tensor;

constexpr int64_t kCoreTokens = 4096;  // of a step, or one sequence if that is longer
constexpr int64_t kCoreHeads = 24, kCoreWidth = 64, kCoreChannels = kCoreHeads * kCoreWidth;
constexpr int64_t kCoreStates = 64, kSelectiveStates = 16;  // of a channel
constexpr int64_t kCoreTile = 64;

Sequences sequences_of(const Subject& subject) {
  std::vector<int64_t> offsets{0};
  for (int64_t i = 0; i < subject.batch; ++i) offsets.push_back(offsets.back() + subject.length);
  return Sequences(offsets);
}

Function core_function(const std::vector<Tensor>& leaves, std::function<Tensor()> run,
                       int64_t outputs) {
  Function f;
  for (const auto& t : leaves) f.inputs.emplace_back("input", t.requires_grad_());
  f.forward = [run = std::move(run)] { return std::vector<Tensor>{run()}; };
  f.output_entries = outputs;
  return f;
}

// SSD with N states: b and c for each of G groups of heads.
Function ssd(const Subject& subject, int64_t N, int64_t G) {
  const int64_t n = subject.tokens();
  const auto x = torch::randn({n, kCoreHeads, kCoreWidth}), dt = torch::randn({n, kCoreHeads}),
             b = torch::randn({n, G, N}), c = torch::randn({n, G, N}),
             bias = torch::randn({kCoreHeads}) - 4, A = -torch::rand({kCoreHeads}) * 16,
             delta = torch::ones({kCoreHeads});
  return core_function(
      {x, dt, b, c, bias, A, delta},
      [=, sequences = sequences_of(subject)] {
        return packed_scan(x, {dt, b, c}, {}, bias, A, delta, sequences,
                           {.shift = 0, .tile = kCoreTile});
      },
      x.numel());
}

// Queries and keys per head, and a fixed decay.
Function retention(const Subject& subject, const Tensor& log_decay) {
  const int64_t n = subject.tokens();
  const auto x = torch::randn({n, kCoreHeads, kCoreWidth}),
             q = torch::randn({n, kCoreHeads, kCoreStates}),
             k = torch::randn({n, kCoreHeads, kCoreStates}), zero = torch::zeros({kCoreHeads});
  return core_function(
      {x, q, k},
      [=, sequences = sequences_of(subject), A = log_decay.to(torch::kFloat32)] {
        // The limits of dt make every step 1.
        return packed_scan(x, {zero.expand({x.size(0), kCoreHeads}), k, q}, {}, zero, A, zero,
                           sequences, {.shift = 0, .tile = kCoreTile, .dt_low = 1, .dt_high = 1});
      },
      x.numel());
}

Function gated(const Subject& subject) {
  const int64_t n = subject.tokens();
  const auto x = torch::randn({n, kCoreHeads, kCoreWidth}),
             q = torch::randn({n, kCoreHeads, kCoreStates}),
             k = torch::randn({n, kCoreHeads, kCoreStates}),
             g = torch::log_sigmoid(torch::randn({n, kCoreHeads, kCoreStates})) / 16;
  return core_function(
      {x, q, k, g},
      [=, sequences = sequences_of(subject)] {
        return gated_scan(x, {q, k, g}, sequences, kCoreTile);
      },
      x.numel());
}

// A complex state per channel.
Function recurrent_unit(const Subject& subject) {
  const auto x = torch::randn({subject.tokens(), kCoreChannels});
  const auto size = torch::rand({kCoreChannels}, torch::kFloat64).sqrt(),
             angle = 2 * M_PI * torch::rand({kCoreChannels}, torch::kFloat64);
  const Tensor re = size * angle.cos(), im = size * angle.sin();
  return core_function(
      {x, re, im},
      [=, sequences = sequences_of(subject)] { return complex_scan(x, re, im, sequences); },
      2 * x.numel());
}

Function selective(const Subject& subject) {
  const int64_t n = subject.tokens();
  const auto x = torch::randn({n, kCoreChannels}),
             dt = torch::softplus(torch::randn({n, kCoreChannels}) - 4),
             A = -torch::arange(1, kSelectiveStates + 1, torch::kFloat32)
                      .repeat({kCoreChannels, 1}),
             b = torch::randn({n, kSelectiveStates}), c = torch::randn({n, kSelectiveStates}),
             D = torch::ones({kCoreChannels});
  return core_function(
      {x, dt, A, b, c, D},
      [=, sequences = sequences_of(subject)] {
        return selective_scan(x, {dt, A, b, c, D}, sequences, kCoreTile);
      },
      x.numel());
}

// The work that S6 cannot avoid, per channel, state and token, on registers:
//
//   forward    exp(dt A);  h = exp(dt A) h + (dt x) b,  y += c h                 3 multiply-adds
//   backward   exp(dt A) and h again;  g += c dy,  dc += dy h,  db += g (dt x),
//              d(dt x) += g b,  u = g exp(dt A),  v = u h,  d(dt) += v A,  dA += v dt          10
//
// The backward pass needs the decay and the state of every token. Kept by the forward pass they
// would be written and read, 16 bytes. At 30 GB/s that is 0.5 ns, and to compute them again takes
// 0.1 ns.
struct SelectiveFloor {
  double entries;  // channels, states and tokens
  int threads;

  void run(double exponentials, double multiply_adds) const {
    const double of_round = kernels::fused_multiply_adds(1) / 2;  // as many of either kind
    const auto rounds = [&](double count) {
      return static_cast<int64_t>(std::ceil(count * entries / of_round / threads));
    };
    parallel(threads, [&](int64_t) {
      kernels::exponentials(rounds(exponentials));
      kernels::fused_multiply_adds(rounds(multiply_adds));
    });
  }
};

struct Core {
  std::string name;
  std::function<Function(const Subject&)> core;
  std::function<Function(const Subject&)> compared;  // null: the floor of S6
};

std::vector<Core> all_cores() {
  const auto head = torch::arange(kCoreHeads, torch::kFloat64);
  const auto usual = [](const Subject& s) { return ssd(s, kCoreStates, 1); };
  return {
      {"semiseparable", usual, [](const Subject& s) { return ssd(s, kCoreStates, kCoreHeads); }},
      {"retnet",
       [decay = torch::log1p(-torch::exp2(-5 - head))](const Subject& s) {
         return retention(s, decay);
       },
       usual},
      {"transnormer",
       [decay = head * (-8.0 / kCoreHeads)](const Subject& s) { return retention(s, decay); },
       usual},
      {"gla", gated, usual},
      {"lru", recurrent_unit, [](const Subject& s) { return ssd(s, /*N=*/2, 1); }},
      {"s6", selective, nullptr}};
}

// The core against its definition: mix() of the mixer that calls it against the materialised
// matrix.
double verify_core(const Options& o, const std::string& name, const Subject& subject) {
  auto block = block_options(o, name);
  // As heads of one channel; the matrices of all of d_inner would not fit in memory.
  if (name == "s6" || name == "lru") block.d_model = 32, block.headdim = 1;
  if (name == "s6") block.mixer_options.d_state = kSelectiveStates;
  return verify_mixer(name, block, to_verify(subject, o), o.tolerance);
}

void cores(Bench& bench, const Subject& subject) {
  const Options& o = bench.options;
  for (const Core& core : all_cores()) {
    if (!o.mixers.empty() &&
        std::find(o.mixers.begin(), o.mixers.end(), core.name) == o.mixers.end())
      continue;
    torch::manual_seed(static_cast<uint64_t>(o.seed));
    Comparison c;
    c.subject = subject;
    c.subject.name = core.name;
    c.error = verify_core(o, core.name, subject);
    c.work = core.core(subject);
    c.forward = o.forward();
    c.forward_backward = o.forward_backward();
    c.backward_alone = true;
    if (core.compared) {
      c.gemms = core.compared(subject);
    } else {
      const SelectiveFloor floor{
          static_cast<double>(subject.tokens() * kCoreChannels * kSelectiveStates),
          subject.threads};
      c.floor_forward = [floor] { floor.run(1, 3); };
      c.floor_forward_backward = [floor] { floor.run(2, 13); };
    }
    for (const auto& m : measure(bench, c)) bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> cores_suite(const Options& options) {
  Options usual = options;
  usual.lengths = lengths_or(options, {128, 2048, 16384});
  std::vector<Step> steps;
  for (Subject subject : subjects(usual, "cores", /*with_packed=*/false)) {
    subject.batch = std::max(options.batch, kCoreTokens / subject.length);
    steps.push_back({title(subject), [subject](Bench& bench) { cores(bench, subject); }});
  }
  return steps;
}

}  // namespace hydramix::bench
