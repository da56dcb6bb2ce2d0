// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_verify.h"

#include <algorithm>
#include <cmath>

#include "bench/gpu_cores.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "ops/graph.h"
#include "ops/projection.h"

namespace hydramix::bench {
namespace {

using torch::Tensor;

// Factors for --tolerance, which is meant for float32. bfloat16 has 8 bits where float32 has 24,
// but errors of many rounded terms partly cancel.
constexpr double kCoarser = 200;

Tensor to_cpu(const Tensor& t) { return t.detach().to(torch::kCPU).to(torch::kFloat64); }

// |got - want| / |want|; throws if it is above the limit or NaN.
double verified(const Bench& bench, const std::string& what, const Tensor& got, const Tensor& want,
                double factor = 1) {
  const auto a = to_cpu(got), b = to_cpu(want);
  const double size = b.norm().item<double>();
  const double error = (a - b).norm().item<double>() / (size > 0 ? size : 1);
  const double allowed = factor * kCoarser * bench.options.tolerance;
  HYDRAMIX_CHECK(error <= allowed, "bench: ", what, " ", got.sizes(),
                 " on the GPU is off its reference on the CPU by ", error, ", expected at most ",
                 allowed,
                 " (by norms). Nothing wrong is timed: find the error, or set --tolerance if the "
                 "reference allows it.");
  return error;
}

template <class Check>
double once(Bench& bench, const std::string& what, const Check& check) {
  if (!bench.errors.contains(what)) bench.errors.emplace(what, check());
  return bench.errors.at(what);
}

// Gradients of small tensors are sums over all tokens with terms of either sign, so they lose
// digits by cancellation.
double factor_of(const Tensor& gradient) { return gradient.numel() < 100 ? 10 : 2.5; }

// The results of f. Throws unless a CUDA graph of f, as it is timed, computes the same bits.
std::vector<Tensor> replayable(const std::string& what,
                               const std::function<std::vector<Tensor>()>& f) {
  auto direct = f();
  std::vector<Tensor> replayed;
  Graph graph([&] { replayed = f(); });
  graph.replay();
  for (std::size_t i = 0; i < direct.size(); ++i)
    HYDRAMIX_CHECK(torch::equal(direct[i], replayed[i]), "bench: ", what, ": result ", i, " ",
                   direct[i].sizes(),
                   " of a CUDA graph differs from that of direct launches, expected the same "
                   "bits. Nothing wrong is timed: find the error.");
  return direct;
}

struct Computation {
  std::function<Tensor()> run;
  std::vector<Tensor> leaves;

  // y and the gradients of g . y.
  std::vector<Tensor> results(const Tensor& g) const {
    const auto y = run();
    auto all = torch::autograd::grad({y}, leaves, {g});
    all.insert(all.begin(), y.detach());
    return all;
  }
};

struct Verification {
  std::string what;
  std::vector<std::string> names;  // of the leaves
  double output_factor = 1;
  bool graphs = true;  // whether the function can be captured
};

// Both passes of a function with an output of the shape of its first leaf.
double compared(const Bench& bench, const Verification& c, const Computation& fast,
                const Computation& slow) {
  const auto g = random_bf16(fast.leaves[0].sizes().vec());
  const auto results = [&] { return fast.results(g); };
  const auto got = c.graphs ? replayable(c.what, results) : results();
  const auto want = slow.results(to_cpu(g));
  double worst = verified(bench, c.what + ": the output", got[0], want[0], c.output_factor);
  for (std::size_t i = 0; i < c.names.size(); ++i)
    worst = std::max(worst, verified(bench, c.what + ": the gradient of " + c.names[i], got[i + 1],
                                     want[i + 1], factor_of(want[i + 1])));
  return worst;
}

// One batch with sequences of several tiles, of one tile, and shorter ones; its segments end where
// sequences do. One sequence of 16 tiles, longer than a segment: the kernels carry its states from
// segment to segment, as those of all longer sequences.
std::vector<Sequences> verified_sequences(const Bench& bench) {
  const int64_t L = bench.options.check_length;
  return {Sequences({0, L, L + 128, L + 131, 3 * L + 200}), Sequences::uniform(1, 2048)};
}

}  // namespace

torch::TensorOptions on_gpu(torch::ScalarType type) {
  return torch::TensorOptions().dtype(type).device(kGpu);
}

Tensor random_bf16(const std::vector<int64_t>& shape) {
  return torch::randn(shape, on_gpu(torch::kFloat32)).to(torch::kBFloat16);
}

ScanCase::ScanCase(const BlockOptions& options, const Sequences& where) : sequences(where) {
  const Heads heads = options.heads();
  const auto& mixer = options.mixer_options;
  const int64_t n = sequences.tokens(), G = mixer.groups, N = mixer.d_state;
  const auto floats = on_gpu(torch::kFloat32);
  x = random_bf16({n, heads.H, heads.P});
  for (auto& d : directions)
    d = {torch::randn({n, heads.H}, floats), random_bf16({n, G, N}), random_bf16({n, G, N})};
  bias = torch::full({heads.H}, -4.0, floats);
  A = torch::full({heads.H}, -1.0, floats);
  delta = torch::randn({n, heads.H}, floats);
  for (auto* t : inputs()) t->requires_grad_();
}

ScanCase ScanCase::reference() const {
  ScanCase copy = *this;
  for (auto* t : copy.inputs()) *t = to_cpu(*t).requires_grad_();
  return copy;
}

std::vector<Tensor*> ScanCase::inputs() {
  auto &f = directions[0], &b = directions[1];
  return {&x, &f.dt, &f.b, &f.c, &b.dt, &b.b, &b.c, &bias, &A, &delta};
}

std::vector<Tensor> ScanCase::leaves() {
  std::vector<Tensor> all;
  for (const auto* t : inputs()) all.push_back(*t);
  return all;
}

Tensor ScanCase::run() const {
  return packed_scan(x, directions[0], directions[1], bias, A, delta, sequences, {});
}

double verify_scan(Bench& bench) {
  return once(bench, "scan", [&] {
    const Verification verification{
        "scan", {"x", "dt", "b", "c", "dt'", "b'", "c'", "dt_bias", "A", "delta"}};
    double worst = 0;
    for (const auto& sequences : verified_sequences(bench)) {
      ScanCase fast(block_options(bench.options), sequences), slow = fast.reference();
      worst =
          std::max(worst, compared(bench, verification, {[&] { return fast.run(); }, fast.leaves()},
                                   {[&] { return slow.run(); }, slow.leaves()}));
    }
    return worst;
  });
}

double verify_core(Bench& bench, const std::string& core) {
  return once(bench, core, [&] {
    double worst = 0;
    for (const auto& sequences : verified_sequences(bench)) {
      const CoreCase fast(core, sequences), slow = fast.reference();
      Verification verification{core, {}};
      for (std::size_t i = 0; i < fast.leaves.size(); ++i)
        verification.names.push_back(concat("input ", i));
      worst =
          std::max(worst, compared(bench, verification, {[&] { return fast.run(); }, fast.leaves},
                                   {[&] { return slow.run(); }, slow.leaves}));
    }
    return worst;
  });
}

double verify_block(Bench& bench, const std::string& mixer) {
  return once(bench, mixer + " block", [&] {
    BlockOptions options = block_options(bench.options, mixer);
    const int64_t L = bench.options.check_length;
    options.mixer_options.max_length = L;
    Block fast(options);
    const Block slow = in_float64(fast);
    fast->to(kGpu);
    const auto u = random_bf16({2, L, options.d_model}).requires_grad_();
    const auto v = to_cpu(u).requires_grad_();
    Verification verification{mixer + " block", {"u"}, 2.5, mixer_info(mixer).packed};
    std::vector<Tensor> leaves{u}, exact_leaves{v};
    if (mixer == "hydra") {
      const auto exact = slow->named_parameters();
      for (const auto& weight : fast->named_parameters()) {
        verification.names.push_back(weight.key());
        leaves.push_back(weight.value());
        exact_leaves.push_back(exact[weight.key()]);
      }
    }
    return compared(bench, verification, {[&] { return fast->forward(u); }, leaves},
                    {[&] { return slow->forward(v); }, exact_leaves});
  });
}

BertOptions encoder_options(const Bench& bench) {
  BertOptions o;
  o.layers = bench.options.layers;
  o.block = block_options(bench.options);
  return o;
}

double verify_encoder(Bench& bench) {
  const double block = verify_block(bench, "hydra");
  const double encoder = once(bench, "encoder", [&] {
    const auto options = encoder_options(bench);
    const int64_t L = bench.options.check_length, m = std::max<int64_t>(1, L * 3 / 10);
    BertForMaskedLM model(options);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto ids = torch::randint(0, options.vocab, {1, L}, torch::kInt64);
    const auto places = torch::arange(m, torch::kInt64);
    const auto targets = torch::randint(0, options.vocab, {m}, torch::kInt64);
    const auto want = model->encode(ids, {});
    const auto loss = model->masked_loss(want, places, targets).sum;
    model->to(kGpu);
    model->set_precision(torch::kBFloat16);
    const auto there = ids.to(kGpu);
    const auto hidden =
        replayable("encoder", [&] { return std::vector{model->encode(there, {})}; })[0];
    verified(bench, "encoder: the loss",
             model->masked_loss(hidden, places.to(kGpu), targets.to(kGpu)).sum, loss);
    // Every layer adds rounding errors; the squares of independent errors add up.
    return verified(bench, "encoder: the hidden states", hidden, want,
                    std::sqrt(static_cast<double>(options.layers)));
  });
  return std::max(block, encoder);
}

double verify_image_model(Bench& bench, const ImageModelOptions& options) {
  const double block = verify_block(bench, "hydra");
  const double model = once(bench, "image model", [&] {
    ImageModel images(options);
    images->eval();
    const torch::NoGradGuard no_grad;
    const auto pixels = torch::randn({2, 3, options.size, options.size});
    const auto want = images->forward(pixels);
    images->to(kGpu);
    images->set_precision(torch::kBFloat16);
    const auto there = pixels.to(kGpu);
    const auto logits =
        replayable("image model", [&] { return std::vector{images->forward(there)}; })[0];
    return verified(bench, "image model: the logits", logits, want,
                    std::sqrt(static_cast<double>(options.layers)));
  });
  return std::max(block, model);
}

}  // namespace hydramix::bench
