// SPDX-License-Identifier: Apache-2.0
// GSS, gated state spaces: a diagonal state-space model between two projections, and a gate.
//
//   u = gelu(x W2),    y = T u,    out = (y W3 * gelu(x W1)) W4
//
// T is the Toeplitz matrix of the kernel. The gate multiplies rows, so it is a diagonal factor that
// depends on the data:
//
//   M_ij = gelu(g_i) (k_{i-j} + D [i = j])  (i >= j)
//   k_l  = Re sum_n c_n (exp(a_n) - 1) / a_n exp(l a_n),    a_n = -exp(A_real) + i exp(A_imag)
//
// with a shared by all heads, a step of one, and random a and c at first. W2 and W4 are the block's
// projections, W1 gives the columns g. W3 mixes channels only and has no place in a matrix over
// positions: here the gate follows the kernel directly, W3 = 1, and has a number per head. No style
// of the block has the gelu of u: style plain applies T to x W2, style mamba to its SiLU. The
// reduced width of u is the block's expand < 1, and headdim 1 gives each channel its own kernel and
// gate.
//
// Mehta, Gupta, Cutkosky & Neyshabur 2022, Long Range Language Modeling via Gated State Spaces.
// Cost O(N L) for the kernels, O(L log L) to apply them.
#include "hydramix/registry.h"
#include "mixers/long_convolution.h"
#include "ops/exponential_kernel.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

class GatedStateSpace : public LongConvolution {
 public:
  GatedStateSpace(Heads heads, const MixerOptions& options) : LongConvolution(heads, options) {
    const int64_t N = options.d_state;
    A_real = register_parameter("A_real", torch::randn({N}));
    A_imag = register_parameter("A_imag", torch::randn({N}));
    C = register_parameter("C", torch::randn({heads.H, N, 2}));
  }

  std::vector<Columns> projection() const override {
    return {{"gate", heads_.H, /*conv=*/false, /*silu=*/false}};
  }

 protected:
  torch::Tensor kernels(const Rows& rows) const override {
    const auto wide = [&](const torch::Tensor& w) { return weight(w, rows).to(torch::kFloat64); };
    const auto a = torch::complex(-wide(A_real).exp(), wide(A_imag).exp()).unsqueeze(0);
    const auto c = torch::view_as_complex(wide(C).contiguous()) * (torch::exp(a) - 1) / a;
    return exponential_kernel(c, a, rows.L, rows.options.dtype().toScalarType()).unsqueeze(0);
  }

  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto gate = torch::gelu(params).transpose(1, 2).unsqueeze(-1);  // (S, H, L, 1)
    return gate * toeplitz_matrix(lags(rows));
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    return torch::gelu(params).unsqueeze(-1) * convolved(lags(rows), x);
  }

 private:
  torch::Tensor A_real, A_imag;  // (N)
  torch::Tensor C;               // (H, N, 2)
};

HYDRAMIX_REGISTER_MIXER("gss", GatedStateSpace, .matrix_class = "Diagonal times Toeplitz",
                        .formula = "gelu(g_i) k_{i-j} for i >= j", .cost = "O(L log L)",
                        .source = "GSS, Mehta et al. 2022", .sequence_aligned = true,
                        .causal = true,
                        .choose = "To compare with a gated, data-independent state space.",
                        .published = "style=plain expand=0.25 headdim=1");

}  // namespace
}  // namespace hydramix
