// SPDX-License-Identifier: Apache-2.0
// The memory-bound operations of a block: depthwise convolution with bias and SiLU, and the gated
// RMS norm, at the widths of the Hydra block, against its in_proj.
#include "bench/mixer_function.h"
#include "ops/depthwise_conv.h"
#include "ops/norm.h"

namespace hydramix::bench {
namespace {

constexpr double kEps = 1e-5;

using Tensors = std::vector<torch::Tensor>;

struct Operation {
  std::string name;
  std::vector<std::string> inputs;
  std::function<Tensors(const Subject&)> values;  // of the inputs
  std::function<torch::Tensor(const Tensors&)> fast, oracle;
  double flops_per_entry;  // of the output
};

Function function_of(const Operation& operation,
                     const std::function<torch::Tensor(const Tensors&)>& compute,
                     const Tensors& values, torch::ScalarType type) {
  Function f;
  Tensors leaves;
  for (std::size_t i = 0; i < values.size(); ++i) {
    leaves.push_back(leaf(values[i], type));
    f.inputs.emplace_back(operation.inputs[i], leaves.back());
  }
  f.forward = [compute, leaves] { return Tensors{compute(leaves)}; };
  f.output_entries = values.front().numel();
  f.flops = operation.flops_per_entry * static_cast<double>(f.output_entries);
  return f;
}

// w (B, L, C), weight (C, 1, K), bias (C), position by position, as the op's header defines it.
torch::Tensor obvious_conv(const Tensors& in) {
  const auto &w = in[0], &weight = in[1], &bias = in[2];
  const int64_t L = w.size(1), K = weight.size(2), centre = K / 2;
  const auto padded = torch::constant_pad_nd(w, {0, 0, centre, K - 1 - centre});
  auto y = bias.expand_as(w);
  for (int64_t k = 0; k < K; ++k) y = y + padded.narrow(1, k, L) * weight.select(2, k).squeeze(1);
  return y * torch::sigmoid(y);
}

// y, z (B, L, C), weight (C).
torch::Tensor obvious_norm(const Tensors& in) {
  const auto &y = in[0], &z = in[1], &weight = in[2];
  return y / torch::sqrt((y * y).mean(-1, true) + kEps) * weight * z * torch::sigmoid(z);
}

void conv(Bench& bench, const Subject& subject) {
  const Options& o = bench.options;
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  const BlockOptions options = block_options(o);
  const auto mixer = make_mixer(options.mixer, options.heads(), options.mixer_options);
  const int64_t d_inner = options.heads().channels(), K = options.d_conv;
  int64_t convolved = d_inner;
  for (const auto& columns : mixer->projection()) convolved += columns.conv ? columns.width : 0;

  const Operation convolution{
      .name = "conv_silu",
      .inputs = {"w", "weight", "bias"},
      .values =
          [&](const Subject& of) {
            return Tensors{random_input(of, convolved), torch::randn({convolved, 1, K}),
                           torch::randn({convolved})};
          },
      .fast =
          [](const Tensors& in) {
            return depthwise_conv_silu(in[0], in[1], in[2], /*causal=*/false,
                                       /*silu=*/in[0].size(2), {});
          },
      .oracle = obvious_conv,
      .flops_per_entry = 2.0 * static_cast<double>(K)};
  const Operation norm{
      .name = "gated_rms_norm",
      .inputs = {"y", "z", "weight"},
      .values =
          [&](const Subject& of) {
            return Tensors{random_input(of, d_inner), random_input(of, d_inner),
                           torch::randn({d_inner})};
          },
      .fast = [](const Tensors& in) { return gated_rms_norm(in[0], in[1], in[2], kEps); },
      .oracle = obvious_norm,
      .flops_per_entry = 5};  // square, sum, scale, weight, gate
  for (const Operation& operation : {convolution, norm}) {
    Comparison c;
    c.subject = subject;
    c.subject.name = operation.name;
    const Subject small = to_verify(subject, o);
    const auto values = operation.values(small);
    c.error =
        verify(operation.name + ", " + title(small),
               function_of(operation, operation.fast, values, torch::kFloat32),
               function_of(operation, operation.oracle, values, torch::kFloat64), o.tolerance);
    c.work = function_of(operation, operation.fast, operation.values(subject), torch::kFloat32);
    c.gemms = projection_gemm(*mixer, subject);
    c.forward = o.forward();
    c.forward_backward = o.forward_backward();
    for (const auto& m : measure(bench, c)) bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> conv_suite(const Options& options) {
  std::vector<Step> steps;
  for (const Subject& subject : subjects(options, "conv", /*with_packed=*/false))
    steps.push_back({title(subject), [subject](Bench& bench) { conv(bench, subject); }});
  return steps;
}

}  // namespace hydramix::bench
