// SPDX-License-Identifier: Apache-2.0
#include "ops/nonuniform_fft.h"

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "ops/cosine_grid.h"
#include "ops/gathered_cosines.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using kernels::Gridding;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// The products with C, for all channels of all heads of a call.
template <class T>
class Cosines {
 public:
  // angle: (S or 1, H, L, D), x: (S, L, H, P).
  Cosines(const torch::Tensor& angle, const torch::Tensor& x, double step)
      : angle_(angle.contiguous()),
        step_(step),
        S_(x.size(0)),
        L_(x.size(1)),
        H_(x.size(2)),
        P_(x.size(3)),
        D_(angle.size(3)),
        cosines_(L_),
        channels_(channels_of(cosines_.rows())) {}

  torch::Tensor product(const torch::Tensor& x) const {
    auto y = torch::empty_like(x);
    for_blocks([&](const Gridding<T>& p, int64_t, int64_t at) {
      auto grid = torch::empty({p.rows(), p.row()}, x.options());
      cosines_.evaluate(p, data(x) + at, data(grid));
      kernels::interpolate(p, data(grid), data(y) + at);
    });
    return y;
  }

  torch::Tensor transposed(const torch::Tensor& x) const {
    auto y = torch::empty_like(x);
    for_blocks([&](const Gridding<T>& p, int64_t, int64_t at) {
      auto grid = torch::zeros({p.rows(), p.row()}, x.options());
      kernels::spread(p, data(x) + at, data(grid));
      cosines_.collect(p, data(grid), data(y) + at);
    });
    return y;
  }

  // The gradient of (r * C x).sum() by angle; also C x if y is not null.
  torch::Tensor slope(const torch::Tensor& x, const torch::Tensor& r, torch::Tensor* y) const {
    if (y != nullptr) *y = torch::empty_like(x);
    auto parts = torch::empty({S_, H_, blocks(), L_, D_}, x.options());
    for_blocks([&](const Gridding<T>& p, int64_t block, int64_t at) {
      auto grid = torch::empty({p.rows(), p.row()}, x.options());
      cosines_.evaluate(p, data(x) + at, data(grid));
      kernels::interpolate_with_slope(p, data(grid), data(r) + at, data(parts) + block * L_ * D_,
                                      y != nullptr ? data(*y) + at : nullptr);
    });
    const auto each = parts.sum(2);  // (S, H, L, D)
    return angle_.size(0) == S_ ? each : each.sum(0, /*keepdim=*/true);
  }

 private:
  static T* data(const torch::Tensor& t) { return t.template data_ptr<T>(); }

  // Channels per block: as many as let the grid fit in cache, because its rows are accessed in
  // random order; at least one vector.
  static int64_t channels_of(int64_t rows) {
    constexpr int64_t kCache = 1 << 20, kVector = kernels::kGridAlign;
    const int64_t vectors =
        std::clamp<int64_t>(kCache / (rows * kVector), 1, kernels::kMaxChannelBytes / kVector);
    return vectors * kVector / static_cast<int64_t>(sizeof(T));
  }
  int64_t blocks() const { return (P_ + channels_ - 1) / channels_; }

  // Calls task(parameters, block, offset of the block in x). Blocks of channels share no data, so
  // the result does not depend on the number of threads.
  template <class F>
  void for_blocks(F task) const {
    parallel(S_ * H_ * blocks(), [&](int64_t block) {
      const int64_t c = block % blocks() * channels_, h = block / blocks() % H_,
                    s = block / blocks() / H_;
      const Gridding<T> p{
          .angle = data(angle_) + ((angle_.size(0) == 1 ? 0 : s) * H_ + h) * L_ * D_,
          .step = step_,
          .L = L_,
          .D = D_,
          .N = cosines_.rows(),
          .C = std::min(channels_, P_ - c),
          .x_stride = H_ * P_,
          .window = gridding_window<T>()};
      task(p, block, (s * L_ * H_ + h) * P_ + c);
    });
  }

  torch::Tensor angle_;  // (S or 1, H, L, D), contiguous
  double step_;
  int64_t S_, L_, H_, P_, D_;
  CosineGrid<T> cosines_;
  int64_t channels_;
};

// Calls f(Cosines of x's type and device).
template <class F>
auto with_cosines(const torch::Tensor& angle, const torch::Tensor& x, double step, F f) {
  if (!x.is_cpu()) return f(GatheredCosines(angle, x, step));
  return x.scalar_type() == torch::kFloat32 ? f(Cosines<float>(angle, x, step))
                                            : f(Cosines<double>(angle, x, step));
}

// y = C x or C^T x. The gradient of one product by x is the other product, applied to dy. The
// gradient by an angle is the polynomial's derivative at that frequency, computed with the window's
// derivative on the existing grid. A separate FFT of 2 pi j x_j would be three times as accurate,
// but need a second grid.
class CosineProduct : public torch::autograd::Function<CosineProduct> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& angle, const Variable& x,
                          double step, bool transposed) {
    const auto v = x.contiguous();
    ctx->save_for_backward({angle, v});
    ctx->saved_data["step"] = step;
    ctx->saved_data["transposed"] = transposed;
    return with_cosines(angle, v, step,
                        [&](const auto& C) { return transposed ? C.transposed(v) : C.product(v); });
  }

  static variable_list backward(AutogradContext* ctx, variable_list dys) {
    const NoAutocast no_autocast;
    HYDRAMIX_CHECK(!torch::GradMode::is_enabled(),
                   "cosine_product: its gradient was asked for a gradient (create_graph); it is "
                   "differentiable once. Use cosine_matrix() and a dense product instead.");
    const auto saved = ctx->get_saved_variables();
    const auto &angle = saved[0], &x = saved[1];
    const auto dy = dys[0].contiguous();
    const bool transposed = ctx->saved_data["transposed"].toBool();
    torch::Tensor dangle, dx;
    with_cosines(angle, x, ctx->saved_data["step"].toDouble(), [&](const auto& C) {
      if (!transposed) {
        if (ctx->needs_input_grad(0)) dangle = C.slope(x, dy, nullptr);
        if (ctx->needs_input_grad(1)) dx = C.transposed(dy);
      } else if (ctx->needs_input_grad(0)) {
        dangle = C.slope(dy, x, &dx);
      } else {
        dx = C.product(dy);
      }
      return true;
    });
    return {dangle, dx, Variable(), Variable()};
  }
};

torch::Tensor checked_product(const char* who, const torch::Tensor& angle, const torch::Tensor& x,
                              double step, bool transposed) {
  HYDRAMIX_CHECK(x.dim() == 4 && angle.dim() == 4 && x.size(1) >= 1 && angle.size(3) >= 1 &&
                     (angle.size(0) == 1 || angle.size(0) == x.size(0)) &&
                     angle.size(1) == x.size(2) && angle.size(2) == x.size(1),
                 who,
                 ": angle must be (S or 1, H, L, d) for x (S, L, H, P), with L and d at least 1",
                 "; got angle ", angle.sizes(), " and x ", x.sizes(), ".");
  HYDRAMIX_CHECK(x.device() == angle.device() && x.scalar_type() == angle.scalar_type() &&
                     (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64),
                 who,
                 ": angle and x must both be float32 or both float64, on one device; got angle ",
                 angle.dtype(), " on ", angle.device(), " and x ", x.dtype(), " on ", x.device(),
                 ". Convert one of them.");
  return CosineProduct::apply(angle, x, step, transposed);
}

}  // namespace

torch::Tensor cosine_product(const torch::Tensor& angle, const torch::Tensor& x, double step) {
  return checked_product("cosine_product", angle, x, step, false);
}

torch::Tensor cosine_product_transposed(const torch::Tensor& angle, const torch::Tensor& x,
                                        double step) {
  return checked_product("cosine_product_transposed", angle, x, step, true);
}

torch::Tensor cosine_matrix(const torch::Tensor& angle, double step) {
  const auto j = torch::arange(angle.size(2), angle.options());
  torch::Tensor sum;
  for (int64_t d = 0; d < angle.size(3); ++d) {
    const auto term = torch::cos(2 * M_PI * (step * angle.select(3, d)).unsqueeze(-1) * j);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace hydramix
