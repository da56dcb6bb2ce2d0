// SPDX-License-Identifier: Apache-2.0
// Our matrix products beside LibTorch's, at the widths of the Hydra block's projections. The number
// to compare is the share of the FMA peak.
#include "base/formatted.h"
#include "bench/suite.h"
#include "ops/product.h"

namespace hydramix::bench {
namespace {

using Linear = torch::Tensor (*)(const torch::Tensor&, const torch::Tensor&);

torch::Tensor ours(const torch::Tensor& x, const torch::Tensor& w) { return linear_map(x, w); }
torch::Tensor libtorchs(const torch::Tensor& x, const torch::Tensor& w) {
  return torch::linear(x, w);
}

Function function_of(Linear product, const torch::Tensor& x, const torch::Tensor& w) {
  Function f;
  f.inputs = {{"x", x}, {"weight", w}};
  f.forward = [product, x, w] { return std::vector<torch::Tensor>{product(x, w)}; };
  f.output_entries = x.size(0) * w.size(0);
  f.flops = 2.0 * static_cast<double>(x.size(0) * w.numel());
  return f;
}

void product(Bench& bench, const Subject& subject) {
  const Options& o = bench.options;
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  const Block block(block_options(o));
  const auto weights = block->named_parameters();
  for (const std::string name : {"in_proj", "out_proj"}) {
    const auto w = leaf(weights[name + ".weight"]);
    const Subject small = to_verify(subject, o);
    const auto x = random_input(small, w.size(1)).flatten(0, 1);
    Comparison c;
    c.subject = subject;
    c.subject.name = formatted("%s %lld x %lld", name, w.size(1), w.size(0));
    c.error = verify(c.subject.name, function_of(ours, leaf(x), w),
                     function_of(libtorchs, leaf(x, torch::kFloat64), leaf(w, torch::kFloat64)),
                     o.tolerance);
    const auto rows = leaf(random_input(subject, w.size(1)).flatten(0, 1));
    c.work = function_of(ours, rows, w);
    c.gemms = function_of(libtorchs, rows, w);
    c.forward = o.forward();
    c.forward_backward = o.forward_backward();
    for (const auto& m : measure(bench, c)) bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> product_suite(const Options& options) {
  Options usual = options;
  usual.lengths = lengths_or(options, {16, 128, 512, 2048});
  std::vector<Step> steps;
  for (const Subject& subject : subjects(usual, "product", /*with_packed=*/false))
    steps.push_back({title(subject), [subject](Bench& bench) { product(bench, subject); }});
  return steps;
}

}  // namespace hydramix::bench
