// SPDX-License-Identifier: Apache-2.0
#include "ops/fourier.h"

#include <algorithm>

#include "ops/parallel.h"

namespace hydramix {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using Lines = std::vector<torch::Tensor>;  // (..., L) each

// x (S, L, in C) holds `in` matrices side by side, the result (S, L, out C) holds `out` of them. f
// maps their columns, as contiguous lines: in batches on the CPU, all at once elsewhere.
torch::Tensor map_columns(const torch::Tensor& x, int64_t in, int64_t out, int64_t n,
                          const std::function<Lines(const Lines&)>& f) {
  const int64_t S = x.size(0), L = x.size(1), C = x.size(2) / in;
  if (!x.device().is_cpu()) {
    Lines lines;
    for (const auto& t : x.chunk(in, 2)) lines.push_back(t.transpose(1, 2));
    return torch::cat(f(lines), 1).transpose(1, 2);
  }
  auto y = torch::empty({S, L, out * C}, x.options());
  const int64_t width = std::min(C, fft_batch_size(n)), blocks = (C + width - 1) / width;
  parallel(S * blocks, [&](int64_t block) {
    const torch::NoGradGuard no_grad;
    const int64_t s = block / blocks, c = block % blocks * width, w = std::min(width, C - c);
    Lines lines;
    for (int64_t m = 0; m < in; ++m)
      lines.push_back(x.select(0, s).narrow(1, m * C + c, w).t().contiguous());
    const Lines mapped = f(lines);
    for (int64_t m = 0; m < out; ++m) y.select(0, s).narrow(1, m * C + c, w).copy_(mapped[m].t());
  });
  return y;
}

// (..., n / 2 + 1) of an even (sign 1) or odd (sign -1) sequence of period n -> its first L terms.
torch::Tensor unfold(const torch::Tensor& half, int64_t n, int64_t L, double sign) {
  const int64_t K = half.size(-1);
  if (L <= K) return half.narrow(-1, 0, L);
  // Term K equals term n - K, and so on.
  const auto mirrored = half.narrow(-1, n - L + 1, L - K).flip({-1});
  return torch::cat({half, sign * mirrored}, -1);
}

// The transpose of unfold for L = n: t_k + sign t_{n-k}, halved because an inverse real FFT counts
// these terms twice. The first term, and the middle one of an even n, are their own mirror images.
torch::Tensor fold(const torch::Tensor& t, double sign) {
  const int64_t n = t.size(-1), K = n / 2 + 1;
  const auto reversed = torch::cat({t.narrow(-1, 0, 1), t.narrow(-1, 1, n - 1).flip({-1})}, -1);
  return 0.5 * (t.narrow(-1, 0, K) + sign * reversed.narrow(-1, 0, K));
}

// The matrix is symmetric, so backward is the same transform.
class CosineTransform : public torch::autograd::Function<CosineTransform> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, int64_t n) {
    ctx->saved_data["n"] = n;
    return map_columns(x, 1, 1, n, [&](const Lines& v) -> Lines {
      return {unfold(torch::real(torch::fft::rfft(v[0], n)), n, x.size(1), 1)};
    });
  }
  static variable_list backward(AutogradContext* ctx, variable_list dy) {
    return {CosineTransform::apply(dy[0], ctx->saved_data["n"].toInt()), Variable()};
  }
};

// x -> (Re F x, Im F x), or its transpose: Re(F^* z) of z = z_0 + i z_1, which is an inverse real
// FFT of the Hermitian part of z.
class FourierTransform : public torch::autograd::Function<FourierTransform> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, bool transposed) {
    ctx->saved_data["transposed"] = transposed;
    const int64_t L = x.size(1);
    if (!transposed)
      return map_columns(x, 1, 2, L, [&](const Lines& v) -> Lines {
        const auto f = torch::fft::rfft(v[0]);
        return {unfold(torch::real(f), L, L, 1), unfold(torch::imag(f), L, L, -1)};
      });
    return map_columns(x, 2, 1, L, [&](const Lines& z) -> Lines {
      return {torch::fft::irfft(torch::complex(fold(z[0], 1), fold(z[1], -1)), L, -1, "forward")};
    });
  }
  static variable_list backward(AutogradContext* ctx, variable_list dy) {
    return {FourierTransform::apply(dy[0], !ctx->saved_data["transposed"].toBool()), Variable()};
  }
};

}  // namespace

torch::Tensor cosine_transform(const torch::Tensor& x, int64_t n) {
  return CosineTransform::apply(x.flatten(2), n).view_as(x);
}

torch::Tensor fourier_transform(const torch::Tensor& x) {
  return FourierTransform::apply(x.flatten(2), false)
      .unflatten(2, std::vector<int64_t>{2 * x.size(2), x.size(3)});
}

int64_t fast_fft_size(int64_t n) {
  for (;; ++n) {
    int64_t rest = n;
    for (const int64_t prime : {2, 3, 5})
      while (rest % prime == 0) rest /= prime;
    if (rest == 1) return n;
  }
}

int64_t fft_batch_size(int64_t n) { return std::max<int64_t>(4, (int64_t{1} << 18) / n); }

}  // namespace hydramix
