// SPDX-License-Identifier: Apache-2.0
// What the paper's models cost on one GPU, in bfloat16: the scan, the block, a training step and
// inference of the 23-layer encoder, a vision encoder, a sequence of a million tokens. Times are
// medians by events on the device after warm-up; steps are recorded as graphs. Each is compared
// with the matrix products of its projections. That the results are right is what the tests of
// kernels/cuda and of ops on a GPU say.
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "base/formatted.h"
#include "bench/suite.h"
#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "ops/gpu/graph.h"
#include "ops/gpu/measure.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "ops/scan.h"
#include "train/adamw.h"

namespace hydramix::bench {
namespace {

using torch::Tensor;

constexpr int kWarm = 5, kTimes = 20;

const torch::Device kGpu(torch::kCUDA);

torch::TensorOptions on_gpu(torch::ScalarType type) {
  return torch::TensorOptions().dtype(type).device(kGpu);
}

Tensor random_bf16(std::vector<int64_t> shape) {
  return torch::randn(shape, on_gpu(torch::kFloat32)).to(torch::kBFloat16);
}

// Milliseconds of matrix products (n x in) (in x out) in bfloat16, forward, and backward thrice
// that.
double products_ms(int64_t n, const std::vector<std::pair<int64_t, int64_t>>& weights) {
  double ms = 0;
  for (const auto& [in, out] : weights) {
    const auto x = random_bf16({n, in}), w = random_bf16({out, in});
    ms += gpu::median_ms([&] { torch::linear(x, w); }, kWarm, kTimes);
  }
  return ms;
}

// What this GPU can do at most.
const Peak& gpu_peak() {
  static const Peak peak = [] {
    const auto a = random_bf16({8192, 8192});
    const double gemm = gpu::median_ms([&] { torch::mm(a, a); }, kWarm, kTimes);
    const auto from = random_bf16({1 << 30}), to = torch::empty_like(from);
    const double copy = gpu::median_ms([&] { to.copy_(from); }, kWarm, kTimes);
    return Peak{1e-6 * 2 * std::pow(8192.0, 3) / gemm, 1e-6 * 4 * std::pow(2.0, 30) / copy};
  }();
  return peak;
}

struct Size {
  int64_t batch, length;
};

Subject subject_of(const std::string& name, const std::string& pass, Size size, int64_t d_model) {
  Subject s;
  s.suite = "gpu";
  s.name = name;
  s.pass = pass;
  s.batch = size.batch;
  s.length = size.length;
  s.d_model = d_model;
  return s;
}

void report(Bench& bench, const Subject& subject, double ms, double gemm_ms,
            std::vector<std::pair<std::string, double>> extra = {}) {
  Measurement m;
  m.subject = subject;
  m.ms = ms;
  m.gemm_ms = gemm_ms;
  m.rounds = kTimes;
  m.peak = gpu_peak();
  m.extra = std::move(extra);
  bench.report.measured(m);
}

// A recording of forward and backward, with gradients that start as g.
double graphed_ms(const std::function<void()>& f) {
  f();
  f();
  gpu::Graph graph(f);
  return gpu::median_ms([&] { graph.replay(); }, kWarm, kTimes);
}

// The same without a recording, for what uploads numbers as it goes: launched from the host.
double launched_ms(const std::function<void()>& f) { return gpu::median_ms(f, kWarm, kTimes); }

void clear_gradients(const std::vector<Tensor>& leaves) {
  for (const auto& leaf : leaves) leaf.mutable_grad() = Tensor();
}

void scan_step(Bench& bench, Size size) {
  const BlockOptions o = block_options(bench.options);
  const Heads heads = o.heads();
  const int64_t n = size.batch * size.length, G = o.mixer_options.groups,
                N = o.mixer_options.d_state;
  std::vector<Tensor> leaves;
  const auto leaf = [&](Tensor t) {
    leaves.push_back(t.requires_grad_());
    return leaves.back();
  };
  const auto floats = on_gpu(torch::kFloat32);
  const auto x = leaf(random_bf16({n, heads.H, heads.P}));
  ScanDirection directions[2];
  for (auto& d : directions)
    d = {leaf(torch::randn({n, heads.H}, floats)), leaf(random_bf16({n, G, N})),
         leaf(random_bf16({n, G, N}))};
  const auto bias = leaf(torch::full({heads.H}, -4.0, floats));
  const auto A = leaf(torch::full({heads.H}, -1.0, floats));
  const auto delta = leaf(torch::randn({n, heads.H}, floats));
  std::vector<int64_t> offsets{0};
  for (int64_t s = 0; s < size.batch; ++s) offsets.push_back(offsets.back() + size.length);
  const auto g = random_bf16({n, heads.H, heads.P});
  const auto scan = [&] {
    return packed_scan(x, directions[0], directions[1], bias, A, delta, offsets, {});
  };
  const double gemms = products_ms(n, {{o.d_model, 2 * heads.channels() + 4 * G * N + 2 * heads.H},
                                       {heads.channels(), o.d_model}});
  {
    torch::NoGradGuard no_grad;
    report(bench, subject_of("scan", "forward", size, o.d_model), graphed_ms([&] { scan(); }),
           gemms);
  }
  report(bench, subject_of("scan", "forward_backward", size, o.d_model), graphed_ms([&] {
           clear_gradients(leaves);
           scan().backward(g);
         }),
         3 * gemms);
}

void block_step(Bench& bench, const std::string& mixer, Size size) {
  BlockOptions o = block_options(bench.options, mixer);
  o.mixer_options.max_length = size.length;
  Block block(o);
  block->to(kGpu);
  const auto u = random_bf16({size.batch, size.length, o.d_model}).requires_grad_();
  const auto g = random_bf16({size.batch, size.length, o.d_model});
  auto leaves = block->parameters();
  leaves.push_back(u);
  const auto weights = block->named_parameters();
  const auto &in = weights["in_proj.weight"], &out = weights["out_proj.weight"];
  const double gemms =
      products_ms(size.batch * size.length, {{in.size(1), in.size(0)}, {out.size(1), out.size(0)}});
  const auto ms = make_mixer(mixer, o.heads(), o.mixer_options)->packs() ? graphed_ms : launched_ms;
  gpu::reset_peak_memory();
  {
    torch::NoGradGuard no_grad;
    report(bench, subject_of(mixer + " block", "forward", size, o.d_model),
           ms([&] { block->forward(u); }), gemms);
  }
  report(bench, subject_of(mixer + " block", "forward_backward", size, o.d_model), ms([&] {
           clear_gradients(leaves);
           block->forward(u).backward(g);
         }),
         3 * gemms, {{"peak_GiB", gpu::peak_memory_bytes() / (1 << 30)}});
}

BertOptions encoder_options(const Bench& bench) {
  BertOptions o;
  o.layers = bench.options.layers;
  o.block = block_options(bench.options);
  return o;
}

// The projections of all layers.
double encoder_products_ms(const BertForMaskedLM& model, int64_t n) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const auto& w : model->named_parameters())
    if (w.key().find(".0.layer.mixer.") != std::string::npos && w.key().ends_with("_proj.weight"))
      shapes.emplace_back(w.value().size(1), w.value().size(0));
  return products_ms(n, shapes) * static_cast<double>(model->options().layers);
}

// A whole step: forward, backward, norm of the gradient, AdamW. Three of ten places are masked.
void training_step(Bench& bench, Size size) {
  const auto o = encoder_options(bench);
  BertForMaskedLM model(o);
  model->to(kGpu);
  model->train();
  const int64_t n = size.batch * size.length, m = n * 3 / 10;
  const double gemms = encoder_products_ms(model, n);
  gpu::reset_peak_memory();
  FlatParameters parameters(*model);
  AdamW optimizer(parameters, {});
  const auto ids = torch::randint(0, o.vocab, {size.batch, size.length}, on_gpu(torch::kInt64));
  const auto positions =
      std::get<0>(torch::randperm(n, on_gpu(torch::kInt64)).narrow(0, 0, m).sort());
  const auto targets = torch::randint(0, o.vocab, {m}, on_gpu(torch::kInt64));
  const MatmulPrecision precision(torch::kBFloat16);
  const auto gradients = [&] {
    parameters.zero_gradients();
    model->masked_loss(model->encode(ids, {}), positions, targets).sum.backward();
  };
  const auto update = [&] {
    const auto terms = static_cast<double>(m);
    optimizer.step(1e-3, terms, optimizer.gradient_norm(terms));
  };
  gradients();
  update();  // from here on the rounded weights lie where the optimizer writes them
  gradients();
  gpu::Graph graph(gradients);
  const double ms = gpu::median_ms(
      [&] {
        graph.replay();
        update();
      },
      kWarm, kTimes);
  report(bench, subject_of("encoder training step", "forward_backward", size, o.block.d_model), ms,
         3 * gemms,
         {{"ktok_s", static_cast<double>(n) / ms},
          {"peak_GiB", gpu::peak_memory_bytes() / (1 << 30)}});
}

void inference_step(Bench& bench, const std::string& name, Size size, bool head) {
  const auto o = encoder_options(bench);
  BertForMaskedLM model(o);
  model->to(kGpu);
  model->eval();
  torch::NoGradGuard no_grad;
  const MatmulPrecision precision(torch::kBFloat16);
  const int64_t n = size.batch * size.length, m = n * 3 / 10;
  const double gemms = encoder_products_ms(model, n);
  const auto ids = torch::randint(0, o.vocab, {size.batch, size.length}, on_gpu(torch::kInt64));
  const auto positions = torch::arange(m, on_gpu(torch::kInt64));
  const auto targets = torch::randint(0, o.vocab, {m}, on_gpu(torch::kInt64));
  gpu::reset_peak_memory();
  const double ms = graphed_ms([&] {
    const auto hidden = model->encode(ids, {});
    if (head) model->masked_loss(hidden, positions, targets);
  });
  report(bench, subject_of(name, "forward", size, o.block.d_model), ms, gemms,
         {{"ktok_s", static_cast<double>(n) / ms},
          {"peak_GiB", gpu::peak_memory_bytes() / (1 << 30)}});
}

// Patches of 16 x 16 pixels, pre-norm layers, the mean of the tokens, a thousand classes.
void vision_step(Bench& bench, Size size) {
  BlockOptions o = block_options(bench.options);
  constexpr int64_t kLayers = 24, kClasses = 1000;
  const int64_t d = o.d_model;
  std::vector<Block> blocks;
  std::vector<torch::nn::LayerNorm> norms;
  const torch::nn::Linear patch(3 * 16 * 16, d), classes(d, kClasses);
  torch::nn::ModuleList model;
  model->push_back(patch);
  model->push_back(classes);
  for (int64_t i = 0; i <= kLayers; ++i) {
    norms.emplace_back(torch::nn::LayerNormOptions({d}));
    model->push_back(norms.back());
    if (i == kLayers) break;
    blocks.emplace_back(o);
    model->push_back(blocks.back());
  }
  model->to(kGpu);
  const auto weights = blocks[0]->named_parameters();
  const auto &in = weights["in_proj.weight"], &out = weights["out_proj.weight"];
  const double gemms =
      kLayers *
      products_ms(size.batch * size.length, {{in.size(1), in.size(0)}, {out.size(1), out.size(0)}});
  const auto patches = random_bf16({size.batch, size.length, 3 * 16 * 16});
  const auto labels = torch::randint(0, kClasses, {size.batch}, on_gpu(torch::kInt64));
  std::vector<Tensor> leaves = model->parameters();
  gpu::reset_peak_memory();
  const double ms = graphed_ms([&] {
    clear_gradients(leaves);
    auto x = project(patches, patch->weight, patch->bias);
    const auto norm = [](const torch::nn::LayerNorm& f, const Tensor& t) {
      return layer_norm(t, f->weight, f->bias, 1e-5);
    };
    for (int64_t i = 0; i < kLayers; ++i)
      x = x +
          blocks[static_cast<std::size_t>(i)]->forward(norm(norms[static_cast<std::size_t>(i)], x));
    x = norm(norms.back(), x).to(torch::kFloat32).mean(1);
    torch::cross_entropy_loss(torch::linear(x, classes->weight, classes->bias), labels).backward();
  });
  report(bench, subject_of("vision encoder gradients", "forward_backward", size, d), ms, 3 * gemms,
         {{"images_s", 1e3 * static_cast<double>(size.batch) / ms},
          {"peak_GiB", gpu::peak_memory_bytes() / (1 << 30)}});
}

}  // namespace

std::vector<Step> gpu_suite(const Options& options) {
  HYDRAMIX_CHECK_USAGE(gpu::kBuilt && torch::cuda::is_available(),
                       "--suite gpu: needs an NVIDIA GPU, and a build with LibTorch for CUDA and a "
                       "CUDA compiler; this one ",
                       gpu::kBuilt ? "finds no GPU." : "has no GPU kernels.");
  std::vector<Step> steps;
  const auto add = [&](const std::string& name, Size size, std::function<void(Bench&)> run) {
    steps.push_back({formatted("%s %lld x %lld", name, size.batch, size.length),
                     [run = std::move(run)](Bench& bench) {
                       if constexpr (gpu::kBuilt) {
                         torch::manual_seed(static_cast<uint64_t>(bench.options.seed));
                         const gpu::OwnStream stream(kGpu);
                         run(bench);
                       }
                     }});
  };
  if constexpr (gpu::kBuilt) {
    const std::vector<Size> sizes{{128, 128}, {8, 2048}, {2, 8192}, {1, 65536}};
    for (const Size size : sizes) add("scan", size, [size](Bench& b) { scan_step(b, size); });
    for (const Size size : sizes)
      add("block", size, [size](Bench& b) { block_step(b, "hydra", size); });
    for (const Size size : {Size{256, 128}, Size{16, 2048}}) {
      add("training", size, [size](Bench& b) { training_step(b, size); });
      add("inference", size,
          [size](Bench& b) { inference_step(b, "encoder inference", size, true); });
    }
    for (const Size size : {Size{1, 128}, Size{1, 2048}, Size{1, 16384}})
      add("latency", size, [size](Bench& b) { inference_step(b, "encoder latency", size, false); });
    add("vision", {128, 196}, [](Bench& b) { vision_step(b, {128, 196}); });
    const Size million{1, 1 << 20};
    add("block", million, [million](Bench& b) { block_step(b, "hydra", million); });
    add("inference", million,
        [million](Bench& b) { inference_step(b, "encoder inference", million, false); });
    for (const auto& mixer : options.mixers)
      for (const Size size : {Size{128, 128}, Size{8, 2048}})
        add(mixer, size, [mixer, size](Bench& b) { block_step(b, mixer, size); });
  }
  return steps;
}

}  // namespace hydramix::bench
