// SPDX-License-Identifier: Apache-2.0
// S4ND: a state-space model over the two axes of a grid. Its kernel is the outer product of one
// bidirectional kernel per axis, so its matrix is a Kronecker product of two Toeplitz matrices:
//
//   M = K1 (x) K2 + D,    M_ij = K1[i_1, j_1] K2[i_2, j_2] + D [i = j],    i = i_1 W + i_2
//
// A sequence fills a grid of width W = grid_width row by row. Its last row may be incomplete: M is
// the leading L x L block, as if the rest of the row were padding. A sequence of at most W
// positions is a single row. The axes have the kernels of S4D (mixers/diagonal_kernel.h).
//
// Nguyen, Goel, Gu, Downs, Shah, Dao, Baccus & Re 2022, S4ND: Modeling Images and Videos as
// Multidimensional Signals with State Spaces. Applied by FFTs along both axes, O(L log L).
#include <algorithm>

#include "hydramix/registry.h"
#include "mixers/diagonal_kernel.h"
#include "mixers/long_convolution.h"
#include "ops/toeplitz.h"

namespace hydramix {
namespace {

class S4Nd : public Mixer {
 public:
  S4Nd(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const auto axis = [&](const char* name) {
      return register_module(name, std::make_shared<DiagonalKernel>(heads.H, 2, options));
    };
    vertical = axis("vertical");
    horizontal = axis("horizontal");
    if (options.skip) D = register_parameter("D", torch::randn({heads.H}));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const Grid grid = grid_of(rows.L);
    const auto K1 = toeplitz_matrix(axis_lags(*vertical, grid.height, rows));   // (1, H, h, h)
    const auto K2 = toeplitz_matrix(axis_lags(*horizontal, grid.width, rows));  // (1, H, w, w)
    const auto K = K1.unsqueeze(3).unsqueeze(5) * K2.unsqueeze(2).unsqueeze(4);
    const int64_t n = grid.height * grid.width, L = rows.L;
    auto M = K.reshape({1, heads_.H, n, n}).narrow(2, 0, L).narrow(3, 0, L);
    if (!D.defined()) return M;
    return M + torch::diag_embed(weight(D, rows).view({1, -1, 1}).expand({1, heads_.H, L}));
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    const auto [height, width] = grid_of(rows.L);
    const int64_t S = rows.S, H = x.size(2), P = x.size(3);
    const auto filled = torch::constant_pad_nd(x, {0, 0, 0, 0, 0, height * width - rows.L});
    const auto along_rows =
        convolved(axis_lags(*horizontal, width, rows), filled.reshape({S * height, width, H, P}));
    const auto columns = along_rows.view({S, height, width, H, P}).transpose(1, 2);
    const auto y =
        convolved(axis_lags(*vertical, height, rows), columns.reshape({S * width, height, H, P}));
    const auto grid = y.reshape({S, width, height, H, P}).transpose(1, 2);
    const auto mixed = grid.reshape({S, height * width, H, P}).narrow(1, 0, rows.L);
    return D.defined() ? mixed + weight(D, rows).unsqueeze(1) * x : mixed;
  }

 private:
  struct Grid {
    int64_t height, width;
  };
  Grid grid_of(int64_t L) const {
    const int64_t width = std::min(options_.grid_width, L);
    return {(L + width - 1) / width, width};
  }

  // All lags of an axis with n positions: (1, H, 2 n - 1).
  torch::Tensor axis_lags(const DiagonalKernel& kernel, int64_t n, const Rows& rows) const {
    return all_lags(kernel(n, rows.options.dtype().toScalarType(), [&](const torch::Tensor& w) {
      return weight(w, rows).to(torch::kFloat64);
    }));
  }

  std::shared_ptr<DiagonalKernel> vertical, horizontal;
  torch::Tensor D;  // (H), undefined without a skip
};

HYDRAMIX_REGISTER_MIXER(
    "s4nd", S4Nd, .matrix_class = "Kronecker product of Toeplitz",
    .formula = "K1[i_1, j_1] K2[i_2, j_2], i = i_1 W + i_2", .cost = "O(L log L)",
    .source = "S4ND, Nguyen et al. 2022",
    .choose = "For images: one kernel along the rows of the grid and one along its columns.",
    .published = "style=gated expand=1 headdim=1 d_conv=0 bias=true");

}  // namespace
}  // namespace hydramix
