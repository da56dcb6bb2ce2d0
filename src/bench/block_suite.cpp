// SPDX-License-Identifier: Apache-2.0
// The Hydra block against its own matrix products, which shows the cost of everything between them.
#include "bench/block_suite.h"

#include <algorithm>

#include "bench/mixer_function.h"

namespace hydramix::bench {
namespace {

// Both projections, convolution and scan, without the elementwise rest.
double block_flops(const Block& block, const Subject& subject) {
  const auto weights = block->named_parameters();
  const int64_t products = weights["in_proj.weight"].numel() + weights["out_proj.weight"].numel() +
                           weights["conv1d.weight"].numel();
  return 2.0 * static_cast<double>(subject.tokens() * products) +
         scan_flops(subject.tokens(), block->options(), 2);
}

}  // namespace

Function block_function(const Block& block, const torch::Tensor& u, const Subject& subject) {
  Function f;
  f.forward = [block, u, layout = layout_of(subject)] {
    return std::vector<torch::Tensor>{block->forward(u, layout)};
  };
  f.inputs.emplace_back("u", u);
  for (const auto& weight : block->named_parameters())
    f.inputs.emplace_back(weight.key(), weight.value());
  f.output_entries = u.numel();
  f.flops = block_flops(block, subject);
  return f;
}

Function block_gemms(const Block& block, const Subject& subject) {
  const auto weights = block->named_parameters();
  const auto in = weights["in_proj.weight"], out = weights["out_proj.weight"];
  const auto input = [&](const torch::Tensor& weight) {
    return torch::randn({subject.batch, subject.length, weight.size(1)}).requires_grad_();
  };
  return matrix_products({{input(in), in}, {input(out), out}});
}

double verify_block(const Block& block, const Subject& subject, double tolerance) {
  const auto u = random_input(subject, subject.d_model);
  const double error =
      verify("block, " + title(subject), block_function(block, leaf(u), subject),
             block_function(in_float64(block), leaf(u, torch::kFloat64), subject), tolerance);
  const auto& options = block->options();
  return std::max(error, verify_mixer(options.mixer, options, subject, tolerance));
}

std::vector<Step> block_suite(const Options& options) {
  std::vector<Step> steps;
  for (const Subject& subject : subjects(options, "block", /*with_packed=*/true))
    steps.push_back({title(subject), [subject](Bench& bench) {
                       const Options& o = bench.options;
                       torch::manual_seed(static_cast<uint64_t>(o.seed));
                       const Block block(block_options(o));
                       Comparison c;
                       c.subject = subject;
                       c.subject.name = block->options().mixer;
                       c.error = verify_block(block, to_verify(subject, o), o.tolerance);
                       c.work = block_function(
                           block, random_input(subject, o.d_model).requires_grad_(), subject);
                       c.gemms = block_gemms(block, subject);
                       c.forward = o.forward();
                       c.forward_backward = o.forward_backward();
                       for (const auto& m : measure(bench, c)) bench.report.measured(m);
                     }});
  return steps;
}

}  // namespace hydramix::bench
