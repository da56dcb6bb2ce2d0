// SPDX-License-Identifier: Apache-2.0
// H3: linear attention with two state-space models, one that shifts the keys and one that keeps
// the products of keys and values.
//
//   M_ij = (t_{i-j} + D [i = j]) q_i . k'_j  for i >= j
//   k'_j = sum_{s < N} shift_s k_{j-s} + shift_D k_j           N = d_state, entry by entry
//
// t is the kernel of a diagonal state-space model per head (mixers/diagonal_kernel.h). The shift
// state-space model, with A the shift matrix and B its first unit vector, is a filter of N taps
// for every entry of a key. Queries and keys are entries of the input projection, which pass no
// other convolution. The published layer has qk_dim = headdim.
//
// Dao, Fu et al. 2023, Hungry Hungry Hippos: Towards Language Modeling with State Space Models.
// M = sum_d D_{q_d} T D_{k'_d}, which costs O(d L log L) per channel.
#include <algorithm>
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/diagonal_kernel.h"
#include "mixers/long_convolution.h"
#include "ops/product.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

class H3 : public Mixer {
 public:
  H3(Heads heads, const MixerOptions& options)
      : Mixer(heads, options),
        kernel(register_module(
            "kernel", std::make_shared<DiagonalKernel>(heads.H, /*directions=*/1, options))) {
    const int64_t H = heads.H, d = options.qk_dim, N = options.d_state;
    const double bound = 1 / std::sqrt(static_cast<double>(N));
    if (options.skip) D = register_parameter("D", torch::randn({H}));
    shift = register_parameter("shift", torch::empty({H, d, N}).uniform_(-bound, bound));
    shift_D = register_parameter("shift_D", torch::randn({H * d}));
  }

  std::vector<Columns> projection() const override {
    const int64_t width = heads_.H * options_.qk_dim;
    return {{"q", width, /*conv=*/false, /*silu=*/false},
            {"k", width, /*conv=*/false, /*silu=*/false}};
  }

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    const auto k = keys(params), taps = weight(shift, rows);
    auto shifted = shift_skip(rows) * k;  // (S, L, H, d)
    for (int64_t s = 0; s < std::min(options_.d_state, rows.L); ++s) {
      const auto earlier = k.narrow(1, 0, rows.L - s);
      shifted = shifted + torch::constant_pad_nd(taps.select(2, s) * earlier, {0, 0, 0, 0, s, 0});
    }
    const auto q = queries(params).permute({0, 2, 1, 3}), kt = shifted.permute({0, 2, 3, 1});
    return toeplitz_matrix(lags(rows)) * matrix_product(q, kt);
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    const auto products = shifted_keys(params, rows).unsqueeze(4) * x.unsqueeze(3);
    const auto y = convolved(lags(rows), products.flatten(3)).unflatten(3, inner());
    return (queries(params).unsqueeze(4) * y).sum(3);
  }

 private:
  std::vector<int64_t> inner() const { return {options_.qk_dim, heads_.P}; }
  // (S, L, H, d)
  torch::Tensor queries(const torch::Tensor& params) const {
    return columns(params, 0, heads_.H, options_.qk_dim);
  }
  torch::Tensor keys(const torch::Tensor& params) const {
    return columns(params, heads_.H * options_.qk_dim, heads_.H, options_.qk_dim);
  }

  torch::Tensor shift_skip(const Rows& rows) const {  // (H, d)
    return weight(shift_D, rows).view({heads_.H, options_.qk_dim});
  }

  // k' by FFTs: a filter of N taps is a Toeplitz matrix. (S, L, H, d)
  torch::Tensor shifted_keys(const torch::Tensor& params, const Rows& rows) const {
    const auto k = keys(params);
    const int64_t taps = std::min(options_.d_state, rows.L);
    const auto filter = weight(shift, rows).flatten(0, 1).narrow(1, 0, taps);  // (H d, taps)
    const auto t = all_lags(torch::constant_pad_nd(filter, {0, rows.L - taps}).unsqueeze(0));
    return convolved(t, k.flatten(2).unsqueeze(3)).reshape(k.sizes()) + shift_skip(rows) * k;
  }

  // t and D: (1, H, 2 L - 1), lag -(L - 1) first.
  torch::Tensor lags(const Rows& rows) const {
    const auto kernels =
        (*kernel)(rows.L, rows.options.dtype().toScalarType(),
                  [&](const torch::Tensor& w) { return weight(w, rows).to(torch::kFloat64); });
    auto t = all_lags(kernels);
    if (!D.defined()) return t;
    const int64_t side = rows.L - 1;
    return t + torch::constant_pad_nd(weight(D, rows).unsqueeze(1), {side, side});
  }

  std::shared_ptr<DiagonalKernel> kernel;
  torch::Tensor D;        // (H), undefined without a skip
  torch::Tensor shift;    // (H, d, N), lag 0 first
  torch::Tensor shift_D;  // (H d)
};

HYDRAMIX_REGISTER_MIXER(
    "h3", H3, .matrix_class = "Toeplitz times low rank, by entries",
    .formula = "t_{i-j} q_i . k'_j for i >= j, k' a filter of k", .cost = "O(L log L)",
    .source = "H3, Dao, Fu et al. 2023", .sequence_aligned = true, .trailing_aligned = false,
    .causal = true, .paper_aligned = false,
    .paper_difference =
        "its q and k come from the tokens, so a leading block is made from its own ones",
    .choose = "To compare with the step between linear attention and state spaces.",
    .published = "style=plain expand=1 headdim=1 bias=true mixer_options.qk_dim=1");

}  // namespace
}  // namespace hydramix
