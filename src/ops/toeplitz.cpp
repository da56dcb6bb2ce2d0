// SPDX-License-Identifier: Apache-2.0
#include "ops/toeplitz.h"

#include <algorithm>

#include "ops/fourier.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// A cyclic product of length n >= 2 L - 1 holds every lag once: lag k at index k mod n.
torch::Tensor to_cyclic(const torch::Tensor& t, int64_t L, int64_t n) {
  const auto gap = torch::zeros({t.size(0), t.size(1), n - (2 * L - 1)}, t.options());
  return torch::cat({t.narrow(2, L - 1, L), gap, t.narrow(2, 0, L - 1)}, 2);
}

torch::Tensor from_cyclic(const torch::Tensor& cyclic, int64_t L) {
  const int64_t n = cyclic.size(2);
  return torch::cat({cyclic.narrow(2, n - (L - 1), L - 1), cyclic.narrow(2, 0, L)}, 2);
}

// (S or 1, H, 2 L - 1) -> (S or 1, H, n / 2 + 1) complex.
torch::Tensor kernel_spectrum(const torch::Tensor& t, int64_t L, int64_t n) {
  return torch::fft::rfft(to_cyclic(t, L, n));
}

// For the CPU: each head of each sequence is a task, which processes its channels in batches.
class ToeplitzProduct : public torch::autograd::Function<ToeplitzProduct> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& t, const Variable& x) {
    ctx->save_for_backward({t, x});
    const int64_t L = x.size(1), n = fast_fft_size(2 * L - 1);
    const auto kernel = kernel_spectrum(t, L, n);
    auto y = torch::empty(x.sizes(), x.options());
    for_channels(x, n, [&](int64_t s, int64_t h, int64_t c, int64_t w) {
      const auto product = of(kernel, s, h) * torch::fft::rfft(lines(x, s, h, c, w), n);
      columns(y, s, h, c, w).copy_(torch::fft::irfft(product, n).narrow(1, 0, L).t());
    });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list dys) {
    const auto saved = ctx->get_saved_variables();
    const auto &t = saved[0], &x = saved[1], &dy = dys[0];
    // A gradient that must be differentiable uses LibTorch's differentiable operations.
    if (torch::GradMode::is_enabled()) {
      variable_list inputs, result(2);
      for (int i = 0; i < 2; ++i)
        if (ctx->needs_input_grad(i)) inputs.push_back(saved[i]);
      auto found = torch::autograd::grad({by_operations(t, x)}, inputs, {dy}, true, true);
      for (int i = 0, next = 0; i < 2; ++i)
        if (ctx->needs_input_grad(i)) result[i] = found[next++];
      return result;
    }
    const int64_t L = x.size(1), n = fast_fft_size(2 * L - 1);
    const auto kernel = kernel_spectrum(t, L, n);
    const bool by_t = ctx->needs_input_grad(0);
    auto dx = torch::empty(x.sizes(), x.options());
    auto dkernel = torch::zeros({x.size(0), x.size(2), n / 2 + 1}, kernel.options());
    for_channels(x, n, [&](int64_t s, int64_t h, int64_t c, int64_t w) {
      const auto g = torch::fft::rfft(lines(dy, s, h, c, w), n);
      const auto transposed = torch::fft::irfft(of(kernel, s, h).conj() * g, n);
      columns(dx, s, h, c, w).copy_(transposed.narrow(1, 0, L).t());
      if (by_t) dkernel[s][h] += (torch::fft::rfft(lines(x, s, h, c, w), n).conj() * g).sum(0);
    });
    if (!by_t) return {Variable(), dx};
    const auto dt = from_cyclic(torch::fft::irfft(dkernel, n), L);  // (S, H, 2 L - 1)
    return {t.size(0) == x.size(0) ? dt : dt.sum(0, /*keepdim=*/true), dx};
  }

  // The same with LibTorch's operations on all channels at once; other devices use this.
  static torch::Tensor by_operations(const torch::Tensor& t, const torch::Tensor& x) {
    const int64_t L = x.size(1), n = fast_fft_size(2 * L - 1);
    const auto kernel = kernel_spectrum(t, L, n).unsqueeze(2);    // (S or 1, H, 1, n / 2 + 1)
    const auto v = torch::fft::rfft(x.permute({0, 2, 3, 1}), n);  // (S, H, P, n / 2 + 1)
    return torch::fft::irfft(kernel * v, n).narrow(3, 0, L).permute({0, 3, 1, 2});
  }

 private:
  static torch::Tensor of(const torch::Tensor& kernel, int64_t s, int64_t h) {
    return kernel[kernel.size(0) == 1 ? 0 : s][h];
  }
  // Channels [c, c + w) of a head: (L, w), and as contiguous lines (w, L).
  static torch::Tensor columns(const torch::Tensor& x, int64_t s, int64_t h, int64_t c, int64_t w) {
    return x.select(0, s).select(1, h).narrow(1, c, w);
  }
  static torch::Tensor lines(const torch::Tensor& x, int64_t s, int64_t h, int64_t c, int64_t w) {
    return columns(x, s, h, c, w).t().contiguous();
  }
  template <class F>
  static void for_channels(const torch::Tensor& x, int64_t n, F f) {
    const int64_t H = x.size(2), P = x.size(3), width = std::min(P, fft_batch_size(n));
    parallel(x.size(0) * H, [&](int64_t task) {
      const torch::NoGradGuard no_grad;
      for (int64_t c = 0; c < P; c += width) f(task / H, task % H, c, std::min(width, P - c));
    });
  }
};

}  // namespace

torch::Tensor toeplitz_matrix(const torch::Tensor& t) {
  const int64_t L = (t.size(2) + 1) / 2;
  const auto place = torch::arange(L, t.options().dtype(torch::kInt64));
  const auto lag = place.unsqueeze(1) - place.unsqueeze(0);  // (L, L): i - j
  return t.index_select(2, (lag + (L - 1)).flatten()).unflatten(2, std::vector<int64_t>{L, L});
}

torch::Tensor toeplitz_product(const torch::Tensor& t, const torch::Tensor& x) {
  return x.device().is_cpu() ? ToeplitzProduct::apply(t, x) : ToeplitzProduct::by_operations(t, x);
}

}  // namespace hydramix
