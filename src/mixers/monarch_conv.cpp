// SPDX-License-Identifier: Apache-2.0
// Monarch Mixer's convolution: a bidirectional kernel as long as the sequence, applied through the
// DFT as a Monarch matrix.
//
//   M_ij = t_{i-j} + [i = j]        t learned for every lag, one kernel per head
//
// M2-BERT, Fu et al. 2023, uses this matrix as its sequence mixer. There a small network computes t
// from the lag; here t is learned directly. Cost O(L^1.5) in GEMMs (ops/monarch_dft.h); toeplitz_di
// has the same family of matrices and costs O(L log L).
//
// Kernels start as noise that decays with the lag as exp(-|k| / reach), with a quarter of the
// identity's energy. As in M2, the reach grows over the heads from a few positions to max_length.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/monarch_dft.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

// Up to this length building the matrix is faster than the tables of the DFT, five times at length
// 8.
constexpr int64_t kDenseUpTo = 64;

class MonarchConv : public Mixer {
 public:
  MonarchConv(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t H = heads.H, Lmax = options.max_length;
    const auto share = torch::arange(1, H + 1).to(torch::kFloat32) / static_cast<double>(H);
    const auto reach = torch::exp(share * std::log(static_cast<double>(Lmax))).unsqueeze(1);
    const auto distance = torch::arange(1 - Lmax, Lmax).abs();
    kernel = register_parameter("kernel", 0.5 * torch::randn({H, 2 * Lmax - 1}) *
                                              torch::exp(-distance / reach) / reach.sqrt());
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return with_identity(toeplitz_matrix(lags(rows)));
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    if (rows.L <= kDenseUpTo) return Mixer::product(x, params, rows);
    return monarch_toeplitz_product(lags(rows), x) + x;
  }

 private:
  // (1, H, 2 L - 1), lag -(L - 1) first.
  torch::Tensor lags(const Rows& rows) const {
    return weight(kernel, rows)
        .narrow(1, options_.max_length - rows.L, 2 * rows.L - 1)
        .unsqueeze(0);
  }

  torch::Tensor kernel;  // (H, 2 max_length - 1), lag -(max_length - 1) first
};

HYDRAMIX_REGISTER_MIXER(
    "monarch_conv", MonarchConv, .matrix_class = "Toeplitz", .formula = "t_{i-j}, by a Monarch DFT",
    .cost = "O(L^1.5)", .source = "Monarch Mixer, Fu et al. 2023", .extendable = false,
    .paper_aligned = false,
    .choose = "To compare with Monarch Mixer: a long convolution learned by lag.");

}  // namespace
}  // namespace hydramix
