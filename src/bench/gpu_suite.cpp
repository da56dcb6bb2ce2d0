// SPDX-License-Identifier: Apache-2.0
// The paper's models on one GPU, in bfloat16: the scan and each of its passes, the block, a
// training step and inference of the 23-layer encoder, a vision encoder, a sequence of a million
// tokens. Times are medians, measured by CUDA events after a warm-up; steps are captured into CUDA
// graphs. Each time is compared with that of the matrix products of its projections. Before
// anything is timed, the scan and the block are compared with float64 and the models with float32,
// on the CPU at a small size.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/formatted.h"
#include "bench/gpu_cores.h"
#include "bench/gpu_verify.h"
#include "config/recipe_texts.h"
#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "ops/backend.h"
#include "ops/device_time.h"
#include "ops/graph.h"
#include "ops/scan.h"
#include "train/adamw.h"
#include "train/train_images.h"

namespace hydramix::bench {
namespace {

using torch::Tensor;

constexpr int kWarm = 5, kTimes = 20;
constexpr int64_t kStepTokens = 32768;   // per training step or inference
constexpr int64_t kBlockTokens = 16384;  // per scan or block
constexpr const char* kVisionRecipe = "table5/hydra-vit-b";

// Milliseconds of the matrix products (n x in) (in x out) in bfloat16, forward only. Forward and
// backward together take three times as long.
double products_ms(int64_t n, const std::vector<std::pair<int64_t, int64_t>>& weights) {
  double ms = 0;
  for (const auto& [in, out] : weights) {
    const auto x = random_bf16({n, in}), w = random_bf16({out, in});
    ms += on_cuda::median_ms([&] { torch::linear(x, w); }, kWarm, kTimes);
  }
  return ms;
}

// Measured peaks of this GPU.
const Peak& gpu_peak() {
  static const Peak peak = [] {
    const auto a = random_bf16({8192, 8192});
    const double gemm = on_cuda::median_ms([&] { torch::mm(a, a); }, kWarm, kTimes);
    const auto from = random_bf16({1 << 30}), to = torch::empty_like(from);
    const double copy = on_cuda::median_ms([&] { to.copy_(from); }, kWarm, kTimes);
    return Peak{{1e-6 * 2 * std::pow(8192.0, 3) / gemm}, 1e-6 * 4 * std::pow(2.0, 30) / copy};
  }();
  return peak;
}

struct Size {
  int64_t batch, length;
};

// The tokens of a step: sequences of one length, or packed ones of 8 to 112 tokens, 60 on average,
// as paragraphs and requests have.
struct Tokens {
  Tensor ids;  // (B, L)
  Layout layout;
};

Tokens random_tokens(Size size, int64_t vocab, bool packed) {
  const int64_t n = size.batch * size.length;
  if (!packed)
    return {torch::randint(0, vocab, {size.batch, size.length}, on_gpu(torch::kInt64)), {}};
  std::vector<int64_t> offsets{0};
  for (int64_t s = 0; offsets.back() < n; ++s)
    offsets.push_back(std::min(n, offsets.back() + 8 + 37 * s % 105));
  return {torch::randint(0, vocab, {1, n}, on_gpu(torch::kInt64)),
          Layout::packed(Sequences(offsets))};
}

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
            std::vector<std::pair<std::string, double>> extra = {}, double error = 0) {
  Measurement m;
  m.subject = subject;
  m.ms = ms;
  m.gemm_ms = gemm_ms;
  m.rounds = kTimes;
  m.error = error;
  m.peak = gpu_peak();
  m.extra = std::move(extra);
  bench.report.measured(m);
}

// Captures f into a CUDA graph and times its replay.
double graphed_ms(const std::function<void()>& f) {
  f();
  f();
  Graph graph(f);
  return on_cuda::median_ms([&] { graph.replay(); }, kWarm, kTimes);
}

// Times f without a graph, for work that copies from the host and so cannot be captured.
double launched_ms(const std::function<void()>& f) { return on_cuda::median_ms(f, kWarm, kTimes); }

void clear_gradients(const std::vector<Tensor>& leaves) {
  for (const auto& leaf : leaves) leaf.mutable_grad() = Tensor();
}

// `tokens` tokens in sequences of one length; at least one sequence.
Size size_of(int64_t tokens, int64_t length) {
  return {std::max<int64_t>(1, tokens / length), length};
}

// The projections of a block's layer.
double block_products_ms(const BlockOptions& o, int64_t n) {
  const Heads heads = o.heads();
  const int64_t states = 4 * o.mixer_options.groups * o.mixer_options.d_state;
  return products_ms(
      n, {{o.d_model, 2 * heads.channels() + states + 2 * heads.H}, {heads.channels(), o.d_model}});
}

void scan_step(Bench& bench, Size size) {
  const double error = verify_scan(bench);
  const BlockOptions o = block_options(bench.options);
  ScanCase scan(o, Sequences::uniform(size.batch, size.length));
  const auto leaves = scan.leaves();
  const auto g = random_bf16(scan.x.sizes().vec());
  const double gemms = block_products_ms(o, scan.sequences.tokens());
  {
    torch::NoGradGuard no_grad;
    report(bench, subject_of("scan", "forward", size, o.d_model), graphed_ms([&] { scan.run(); }),
           gemms, {}, error);
  }
  report(bench, subject_of("scan", "forward_backward", size, o.d_model), graphed_ms([&] {
           clear_gradients(leaves);
           scan.run().backward(g);
         }),
         3 * gemms, {}, error);
}

void core_step(Bench& bench, const std::string& core, Size size) {
  const double error = verify_core(bench, core);
  const CoreCase c(core, Sequences::uniform(size.batch, size.length));
  const auto g = random_bf16(c.leaves[0].sizes().vec());
  const int64_t d_model = c.leaves[0][0].numel() / 2;
  {
    torch::NoGradGuard no_grad;
    report(bench, subject_of("core " + core, "forward", size, d_model),
           graphed_ms([&] { c.run(); }), 0, {}, error);
  }
  report(bench, subject_of("core " + core, "forward_backward", size, d_model), graphed_ms([&] {
           clear_gradients(c.leaves);
           c.run().backward(g);
         }),
         0, {}, error);
}

// Each pass of the scan separately, for one layer of the encoder at the number of tokens of a
// training step. step_ms is the time of the pass in all layers.
void passes_step(Bench& bench, Size size) {
  const double error = verify_scan(bench);
  const torch::NoGradGuard no_grad;
  const BlockOptions o = block_options(bench.options);
  const ScanCase scan(o, Sequences::uniform(size.batch, size.length));
  const double gemms = block_products_ms(o, scan.sequences.tokens());
  ScanCall call{scan.x,        {}, scan.bias, scan.A, {}, scan.delta.to(torch::kBFloat16), {},
                scan.sequences};
  for (const int d : {0, 1}) {
    call.direction[d] = scan.directions[d];
    call.direction[d].dt = call.direction[d].dt.to(torch::kBFloat16);
  }
  const auto y = torch::empty_like(call.x), dy = random_bf16(call.x.sizes().vec());
  ScanGradients gradients;
  gradients.x = torch::empty_like(call.x), gradients.delta = torch::empty_like(call.delta);
  for (const int d : {0, 1}) {
    const auto& read = call.direction[d];
    gradients.direction[d] = {torch::empty_like(read.dt), torch::empty_like(read.b),
                              torch::empty_like(read.c)};
  }
  gradients.dt_bias = torch::empty_like(call.dt_bias), gradients.A = torch::empty_like(call.A);
  std::vector<Tensor> saved;
  const auto parts = on_cuda::median_parts_ms(
      [&](const std::function<void(const char*)>& mark) {
        call.passed = mark;
        saved = on_cuda::scan_forward(call, y);
        on_cuda::scan_backward(call, saved, dy, gradients);
      },
      kWarm, kTimes);
  HYDRAMIX_CHECK(!parts.empty(),
                 "bench: the scan of these sizes is not that of tensor cores, which "
                 "alone has passes to time. Take heads of a multiple of 32 channels "
                 "and a state of 16, 32, 64 or 128.");
  const std::set<std::string> forward{"prepare", "states", "output"};
  for (const auto& [name, ms] : parts)
    report(bench,
           subject_of("scan: " + name, forward.contains(name) ? "forward" : "backward", size,
                      o.d_model),
           ms, forward.contains(name) ? gemms : 2 * gemms,
           {{"step_ms", ms * static_cast<double>(bench.options.layers)}}, error);
}

void block_step(Bench& bench, const std::string& mixer, Size size) {
  const double error = verify_block(bench, mixer);
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
  const auto ms = mixer_info(mixer).capturable ? graphed_ms : launched_ms;
  on_cuda::reset_peak_memory();
  {
    torch::NoGradGuard no_grad;
    report(bench, subject_of(mixer + " block", "forward", size, o.d_model),
           ms([&] { block->forward(u); }), gemms, {}, error);
  }
  report(bench, subject_of(mixer + " block", "forward_backward", size, o.d_model), ms([&] {
           clear_gradients(leaves);
           block->forward(u).backward(g);
         }),
         3 * gemms, {{"peak_GiB", on_cuda::peak_memory_bytes() / (1 << 30)}}, error);
}

// The projections of all layers.
double encoder_products_ms(const BertForMaskedLM& model, int64_t n) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const auto& w : model->named_parameters())
    if (w.key().find(".0.layer.mixer.") != std::string::npos && w.key().ends_with("_proj.weight"))
      shapes.emplace_back(w.value().size(1), w.value().size(0));
  return products_ms(n, shapes) * static_cast<double>(model->options().layers);
}

// A whole step: forward, backward, norm of the gradient, AdamW. 30 % of the positions are masked.
void training_step(Bench& bench, const std::string& name, Size size, bool packed) {
  const double error = verify_encoder(bench);
  const auto o = encoder_options(bench);
  BertForMaskedLM model(o);
  model->to(kGpu);
  model->train();
  const int64_t n = size.batch * size.length, m = n * 3 / 10;
  const double gemms = encoder_products_ms(model, n);
  on_cuda::reset_peak_memory();
  FlatParameters parameters(*model);
  AdamW optimizer(parameters, {});
  const auto [ids, layout] = random_tokens(size, o.vocab, packed);
  const auto positions =
      std::get<0>(torch::randperm(n, on_gpu(torch::kInt64)).narrow(0, 0, m).sort());
  const auto targets = torch::randint(0, o.vocab, {m}, on_gpu(torch::kInt64));
  model->set_precision(torch::kBFloat16);
  const auto gradients = [&, &ids = ids, &layout = layout] {
    parameters.zero_gradients();
    model->masked_loss(model->encode(ids, {}, layout), positions, targets).sum.backward();
  };
  const auto terms = torch::full({}, static_cast<double>(m), on_gpu(torch::kFloat64));
  const auto zero = torch::zeros_like(terms);
  const auto update = [&] { optimizer.step(1e-3, zero, terms); };
  gradients();
  update();  // from now on the optimizer writes the rounded weights
  gradients();
  Graph graph(gradients);
  const double ms = on_cuda::median_ms(
      [&] {
        graph.replay();
        update();
      },
      kWarm, kTimes);
  report(bench, subject_of(name, "forward_backward", size, o.block.d_model), ms, 3 * gemms,
         {{"ktok_s", static_cast<double>(n) / ms},
          {"peak_GiB", on_cuda::peak_memory_bytes() / (1 << 30)}},
         error);
}

void inference_step(Bench& bench, const std::string& name, Size size, bool head,
                    bool packed = false) {
  const double error = verify_encoder(bench);
  const auto o = encoder_options(bench);
  BertForMaskedLM model(o);
  model->to(kGpu);
  model->eval();
  torch::NoGradGuard no_grad;
  model->set_precision(torch::kBFloat16);
  const int64_t n = size.batch * size.length, m = n * 3 / 10;
  const double gemms = encoder_products_ms(model, n);
  const auto [ids, layout] = random_tokens(size, o.vocab, packed);
  const auto positions = torch::arange(m, on_gpu(torch::kInt64));
  const auto targets = torch::randint(0, o.vocab, {m}, on_gpu(torch::kInt64));
  on_cuda::reset_peak_memory();
  const double ms = graphed_ms([&, &ids = ids, &layout = layout] {
    const auto hidden = model->encode(ids, {}, layout);
    if (head) model->masked_loss(hidden, positions, targets);
  });
  report(bench, subject_of(name, "forward", size, o.block.d_model), ms, gemms,
         {{"ktok_s", static_cast<double>(n) / ms},
          {"peak_GiB", on_cuda::peak_memory_bytes() / (1 << 30)}},
         error);
}

// The gradients of table5/hydra-vit-b, as train-images computes them.
void vision_step(Bench& bench, int64_t batch) {
  ImageTrainOptions recipe;
  parse_yaml(recipe, recipe_texts().at(kVisionRecipe), kVisionRecipe);
  const double error = verify_image_model(bench, recipe.model);
  ImageModel model(recipe.model);
  model->to(kGpu);
  model->train();
  model->set_precision(torch::kBFloat16);
  const auto& o = model->options();
  const Size size{batch, o.length()};
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const auto& w : model->named_parameters())
    if (w.key().find(".0.layer.mixer.") != std::string::npos && w.key().ends_with("_proj.weight"))
      shapes.emplace_back(w.value().size(1), w.value().size(0));
  const double gemms =
      products_ms(size.batch * size.length, shapes) * static_cast<double>(o.layers);
  const auto pixels = random_bf16({batch, 3, o.size, o.size}).to(torch::kFloat32);
  const auto targets = torch::full({batch, o.classes}, 1.0 / static_cast<double>(o.classes),
                                   on_gpu(torch::kFloat64));
  const DropoutKey key{1, torch::arange(batch, on_gpu(torch::kInt64))};
  std::vector<Tensor> leaves = model->parameters();
  on_cuda::reset_peak_memory();
  const double ms = graphed_ms([&] {
    clear_gradients(leaves);
    const auto logits = model->forward(pixels, key).to(torch::kFloat64);
    (-(targets * logits.log_softmax(1)).sum()).backward();
  });
  report(bench, subject_of("vision encoder gradients", "forward_backward", size, o.block.d_model),
         ms, 3 * gemms,
         {{"images_s", 1e3 * static_cast<double>(batch) / ms},
          {"peak_GiB", on_cuda::peak_memory_bytes() / (1 << 30)}},
         error);
}

}  // namespace

std::vector<Step> gpu_suite(const Options& options) {
  HYDRAMIX_CHECK_USAGE(has_cuda_kernels() && torch::cuda::is_available(),
                       "--suite gpu: needs an NVIDIA GPU, and a build with LibTorch for CUDA and a "
                       "CUDA compiler; this one ",
                       has_cuda_kernels() ? "finds no GPU." : "has no GPU kernels.");
  std::vector<Step> steps;
  const auto add = [&](const std::string& name, Size size, std::function<void(Bench&)> run) {
    steps.push_back({formatted("%s %lld x %lld", name, size.batch, size.length),
                     [run = std::move(run)](Bench& bench) {
                       torch::manual_seed(static_cast<uint64_t>(bench.options.seed));
                       const OwnStream stream(kGpu);
                       run(bench);
                     }});
  };
  for (const int64_t length : lengths_or(options, {128, 2048, 8192, 65536})) {
    const Size size = size_of(kBlockTokens, length);
    add("scan", size, [size](Bench& b) { scan_step(b, size); });
    add("block", size, [size](Bench& b) { block_step(b, "hydra", size); });
  }
  for (const auto& core : core_names())
    for (const int64_t length : lengths_or(options, {128, 2048, 65536})) {
      const Size size = size_of(kBlockTokens, length);
      add("core " + core, size, [core, size](Bench& b) { core_step(b, core, size); });
    }
  for (const int64_t length : lengths_or(options, {128, 256, 512, 1024, 2048, 8192})) {
    const Size size = size_of(kStepTokens, length);
    add("passes", size, [size](Bench& b) { passes_step(b, size); });
    add("training", size,
        [size](Bench& b) { training_step(b, "encoder training step", size, false); });
    add("inference", size,
        [size](Bench& b) { inference_step(b, "encoder inference", size, true); });
  }
  for (const auto& mixer : options.mixers)
    for (const int64_t length : lengths_or(options, {128, 2048})) {
      const Size size = size_of(kBlockTokens, length);
      add(mixer, size, [mixer, size](Bench& b) { block_step(b, mixer, size); });
    }
  if (!options.lengths.empty()) return steps;  // the other steps have fixed lengths
  // On average 60 tokens in a sequence.
  const Size half{1, kBlockTokens}, whole{1, kStepTokens};
  add("packed training", whole,
      [whole](Bench& b) { training_step(b, "encoder training, packed", whole, true); });
  for (const Size size : {half, whole})
    add("packed inference", size, [size](Bench& b) {
      inference_step(b, "encoder inference, packed", size, /*head=*/false, /*packed=*/true);
    });
  for (const Size size : {Size{1, 128}, Size{1, 2048}, Size{1, 16384}})
    add("latency", size, [size](Bench& b) { inference_step(b, "encoder latency", size, false); });
  add("vision", {128, 196}, [](Bench& b) { vision_step(b, 128); });
  const Size million{1, 1 << 20};
  add("block", million, [million](Bench& b) { block_step(b, "hydra", million); });
  add("inference", million,
      [million](Bench& b) { inference_step(b, "encoder inference", million, false); });
  return steps;
}

}  // namespace hydramix::bench
