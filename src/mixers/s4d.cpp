// SPDX-License-Identifier: Apache-2.0
// S4D: a diagonal state-space model that does not depend on the data, so a long convolution.
//
//   M_ij = k_{i-j}  (i >= j)  + D [i = j],    k_l = Re sum_n c_n b_n exp(l a_n)
//
// mixers/diagonal_kernel.h says how a, b and c follow from the weights. The bidirectional form has
// k'_{j-i-1} above the diagonal, with the same poles and a second c.
//
// Gu, Gupta, Goel & Re 2022, On the Parameterization and Initialization of Diagonal State Space
// Models. Cost O(N L) for the kernels, O(L log L) to apply them.
#include "hydramix/registry.h"
#include "mixers/diagonal_kernel.h"
#include "mixers/long_convolution.h"

namespace hydramix {
namespace {

class S4D : public LongConvolution {
 public:
  S4D(Heads heads, const MixerOptions& options, int64_t directions = 1)
      : LongConvolution(heads, options),
        kernel(register_module("kernel",
                               std::make_shared<DiagonalKernel>(heads.H, directions, options))) {}

 protected:
  torch::Tensor kernels(const Rows& rows) const override {
    return (*kernel)(rows.L, rows.options.dtype().toScalarType(),
                     [&](const torch::Tensor& w) { return weight(w, rows).to(torch::kFloat64); });
  }

 private:
  std::shared_ptr<DiagonalKernel> kernel;
};

class S4DBidirectional : public S4D {
 public:
  S4DBidirectional(Heads heads, const MixerOptions& options)
      : S4D(heads, options, /*directions=*/2) {}
};

HYDRAMIX_REGISTER_MIXER(
    "s4d", S4D, .matrix_class = "Toeplitz, semiseparable",
    .formula = "Re sum_n c_n b_n exp((i - j) a_n) for i >= j", .cost = "O(L log L)",
    .source = "S4D, Gu et al. 2022", .causal = true, .paper_aligned = false,
    .choose = "To compare with data-independent state spaces: simpler than s4, and about as good.",
    .published = "style=plain expand=1 headdim=1");

HYDRAMIX_REGISTER_MIXER("s4d_bidirectional", S4DBidirectional,
                        .matrix_class = "Toeplitz, quasiseparable",
                        .formula = "k_{i-j} for i >= j, k'_{j-i-1} for i < j", .cost = "O(L log L)",
                        .source = "S4D, Gu et al. 2022", .paper_aligned = false,
                        .choose = "To compare with data-independent state spaces as an encoder.",
                        .published = "style=plain expand=1 headdim=1");

}  // namespace
}  // namespace hydramix
