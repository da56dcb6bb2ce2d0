// SPDX-License-Identifier: Apache-2.0
#include "ops/toeplitz.h"

#include <algorithm>

#include "ops/fourier.h"
#include "ops/kernel_tensors.h"
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

// For the CPU: a task is a few lines of one sequence, channels of a head or, where heads have few
// channels, several heads.
class ToeplitzProduct : public torch::autograd::Function<ToeplitzProduct> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& t, const Variable& x) {
    ctx->save_for_backward({t, x});
    const int64_t L = x.size(1), n = fast_fft_size(2 * L - 1);
    const auto kernel = kernel_spectrum(t, L, n);
    auto y = torch::empty(x.sizes(), x.options());
    for_lines(x, n, [&](const Part& part) {
      const auto product = of(kernel, part) * torch::fft::rfft(lines(x, part), n);
      columns(y, part).copy_(torch::fft::irfft(product, n).narrow(2, 0, L).permute({2, 0, 1}));
    });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list dys) {
    const NoAutocast no_autocast;
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
    for_lines(x, n, [&](const Part& part) {
      const auto g = torch::fft::rfft(lines(dy, part), n);
      const auto transposed = torch::fft::irfft(of(kernel, part).conj() * g, n);
      columns(dx, part).copy_(transposed.narrow(2, 0, L).permute({2, 0, 1}));
      if (by_t)
        dkernel[part.sequence].narrow(0, part.head, part.heads) +=
            (torch::fft::rfft(lines(x, part), n).conj() * g).sum(1);
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
  struct Part {
    int64_t sequence, head, heads, channel, channels;
  };
  static torch::Tensor of(const torch::Tensor& kernel, const Part& part) {  // (heads, 1, n / 2 + 1)
    const auto heads = kernel[kernel.size(0) == 1 ? 0 : part.sequence];
    return heads.narrow(0, part.head, part.heads).unsqueeze(1);
  }
  // A part of x: (L, heads, channels), and as contiguous lines (heads, channels, L).
  static torch::Tensor columns(const torch::Tensor& x, const Part& part) {
    return x.select(0, part.sequence)
        .narrow(1, part.head, part.heads)
        .narrow(2, part.channel, part.channels);
  }
  static torch::Tensor lines(const torch::Tensor& x, const Part& part) {
    return columns(x, part).permute({1, 2, 0}).contiguous();
  }
  template <class F>
  static void for_lines(const torch::Tensor& x, int64_t n, F f) {
    const int64_t H = x.size(2), P = x.size(3), width = std::min(P, fft_batch_size(n));
    // Enough lines to hide the cost of LibTorch's calls.
    constexpr int64_t kLines = 32;
    const int64_t heads = std::clamp(std::min(kLines, fft_batch_size(n)) / P, int64_t{1}, H);
    const int64_t tasks = (H + heads - 1) / heads;
    parallel(x.size(0) * tasks, [&](int64_t task) {
      const torch::NoGradGuard no_grad;
      const int64_t h = task % tasks * heads;
      for (int64_t c = 0; c < P; c += width)
        f(Part{task / tasks, h, std::min(heads, H - h), c, std::min(width, P - c)});
    });
  }
};

}  // namespace

torch::Tensor toeplitz_matrix(const torch::Tensor& t) {
  // Row i is the window of t from lag i - (L - 1) to lag i, last lag first. The gradient of a
  // window is a sum in a fixed order; that of an index adds atomically on a GPU.
  return t.unfold(2, (t.size(2) + 1) / 2, 1).flip({3});
}

torch::Tensor toeplitz_product(const torch::Tensor& t, const torch::Tensor& x) {
  return x.device().is_cpu() ? ToeplitzProduct::apply(t, x) : ToeplitzProduct::by_operations(t, x);
}

}  // namespace hydramix
