// SPDX-License-Identifier: Apache-2.0
#include "hydramix/mlp.h"

#include "hydramix/error.h"
#include "models/encoder_parts.h"
#include "ops/arithmetic.h"
#include "ops/dropout.h"
#include "ops/projection.h"

namespace hydramix {

MlpImpl::MlpImpl(int64_t d_model, const MlpOptions& options) : options_(options) {
  validate(options);
  HYDRAMIX_CHECK_USAGE(options.kind != "none", "mlp: kind is none; expected gelu or glu.");
  const int64_t blocks = options.blocks;
  HYDRAMIX_CHECK_USAGE(d_model % blocks == 0 && options.width % blocks == 0,
                       "mlp: blocks = ", blocks, " does not divide d_model = ", d_model,
                       " and width = ", options.width, ". Choose blocks that divides both.");
  const int64_t inner = options.kind == "glu" ? 2 * options.width : options.width;
  const auto add = [&](const std::string& name, int64_t out, int64_t in, bool has_bias) {
    auto scope = register_module(name, std::make_shared<torch::nn::Module>());
    const auto shape = blocks == 1 ? std::vector<int64_t>{out, in}
                                   : std::vector<int64_t>{blocks, out / blocks, in / blocks};
    const auto bias =
        has_bias ? scope->register_parameter("bias", torch::zeros({out})) : torch::Tensor();
    return std::pair{scope->register_parameter("weight", 0.02 * torch::randn(shape)), bias};
  };
  std::tie(wi, wi_bias) = add("wi", inner, d_model, options.bias && options.input_bias);
  std::tie(wo, wo_bias) = add("wo", d_model, options.width, options.bias);
}

torch::Tensor MlpImpl::multiply(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias, const RoundedCopy& copy) const {
  // bfloat16 products use the weight's rounded copy.
  const bool use_copy =
      x.scalar_type() == torch::kBFloat16 && weight.scalar_type() != torch::kFloat64;
  const auto w = use_copy ? weight : widened("mlp", weight, x.options());
  const auto b = use_copy ? bias : widened("mlp", bias, x.options());
  return options_.blocks == 1 ? project(x, w, b, copy, x.scalar_type()) : project_blocks(x, w, b);
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x, const Layout& layout,
                               const DropoutKey& dropout) const {
  const int64_t blocks = options_.blocks;
  auto h = multiply(x, wi, wi_bias, wi_copy_).unflatten(-1, std::vector<int64_t>{blocks, -1});
  if (options_.kind == "glu") {
    const auto halves = h.chunk(2, -1);
    h = torch::gelu(halves[0]) * halves[1];
  } else {
    h = torch::gelu(h);
  }
  // Interleaves the channels, so that every block of wo reads from every block of wi.
  if (blocks > 1) h = h.transpose(-2, -1);
  h = h.flatten(-2);
  if (const double share = options_.dropout; is_training() && share > 0)
    h = without(
        h, keep_inner(token_numbers(h, layout, dropout, share), dropout.layer, h.size(2), share),
        layout, share);
  return multiply(h, wo, wo_bias, wo_copy_);
}

}  // namespace hydramix
