// SPDX-License-Identifier: Apache-2.0
// Toeplitz mixers: convolutions as long as the sequence, one kernel per head.
//
//   M_ij = 0.5 / sqrt(max_length) t_{i-j} + [i = j]
//   di:  t learned for every lag
//   dd:  token k gives t_k (forward) and t_{-k} (reverse); t_0 is the forward one
//
// Paper: table 2 and appendix "Toeplitz". Cost O(L log L). The published code has an off-by-one
// error in the lag that ours does not have (docs/math.md); from_reference_toeplitz_weights()
// converts its checkpoints.
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

class Toeplitz : public Mixer {
 public:
  using Mixer::Mixer;

 protected:
  // (S or 1, H, 2 L - 1), lag -(L - 1) first, without the scale.
  virtual torch::Tensor kernel(const torch::Tensor& params, const Rows& rows) const = 0;

  torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const override {
    return with_identity(toeplitz_matrix(scale() * kernel(params, rows)));
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    constexpr int64_t kDenseBelow = 128;  // below this length, building the matrix is as fast
    if (rows.L < kDenseBelow) return Mixer::product(x, params, rows);
    return toeplitz_product(scale() * kernel(params, rows), x) + x;
  }

 private:
  double scale() const { return 0.5 / std::sqrt(static_cast<double>(options_.max_length)); }
};

class ToeplitzDi : public Toeplitz {
 public:
  ToeplitzDi(Heads heads, const MixerOptions& options) : Toeplitz(heads, options) {
    conv_params =
        register_parameter("conv_params", torch::empty({heads.H, 2 * options.max_length - 1}));
    torch::nn::init::xavier_uniform_(conv_params);
  }

 protected:
  torch::Tensor kernel(const torch::Tensor&, const Rows& rows) const override {
    return weight(conv_params, rows)
        .narrow(1, options_.max_length - rows.L, 2 * rows.L - 1)
        .unsqueeze(0);
  }

 private:
  torch::Tensor conv_params;  // (H, 2 max_length - 1), lag -(max_length - 1) first
};

class ToeplitzDd : public Toeplitz {
 public:
  using Toeplitz::Toeplitz;

  std::vector<Columns> projection() const override {
    return {{"forward", heads_.H, true, true}, {"reverse", heads_.H, true, true}};
  }

 protected:
  torch::Tensor kernel(const torch::Tensor& params, const Rows& rows) const override {
    const auto forward = params.narrow(2, 0, heads_.H).permute({0, 2, 1});  // (S, H, L)
    const auto reverse = params.narrow(2, heads_.H, heads_.H).permute({0, 2, 1});
    return torch::cat({reverse.narrow(2, 1, rows.L - 1).flip({2}), forward}, 2);
  }
};

HYDRAMIX_REGISTER_MIXER("toeplitz_di", ToeplitzDi, .matrix_class = "Toeplitz", .formula = "t_{i-j}",
                        .cost = "O(L log L)", .source = "Hydra, Hwang et al. 2024, table 2",
                        .extendable = false,
                        .choose =
                            "For one fixed length at which only the distance between tokens "
                            "matters; the best data-independent family of table 2.");

HYDRAMIX_REGISTER_MIXER("toeplitz_dd", ToeplitzDd, .matrix_class = "Toeplitz",
                        .formula = "t_{i-j}, t_k and t_{-k} from token k", .cost = "O(L log L)",
                        .source = "Hydra, Hwang et al. 2024, table 2", .sequence_aligned = true,
                        .choose =
                            "To reproduce table 2 of the Hydra paper: a long convolution whose "
                            "kernel comes from the tokens.");

}  // namespace
}  // namespace hydramix
