// SPDX-License-Identifier: Apache-2.0
// Vandermonde mixers: real parts of powers of numbers on the unit circle.
//
//   dft  M_ij = cos(2 pi i j / max_length) / sqrt(max_length) + [i = j]
//   di   M_ij = s sum_d cos(2 pi q_id j) + cos(2 pi k_jd i)      + [i = j]
//   dd   M_ij = s sum_d cos(2 pi e q_id j) - cos(2 pi e k_jd i)  + [i = j],  e = 1e-3
//   with s = 1 / sqrt(2 max_length d).
//
// Paper: section 2.4 and table 2. Cost O(L log L) by FFT (dft), O(L log L + L d) by non-uniform
// FFTs with frequencies q and k. The published di multiplies by row sums and mixes nothing; ours
// implements the intended formula (docs/math.md).
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/query_key.h"
#include "ops/cosine.h"
#include "ops/fourier.h"
#include "ops/nonuniform_fft.h"

namespace hydramix {
namespace {

// Below the crossover, building the matrix is as fast on a CPU (measured with d = 16, P = 64). A
// matrix that all sequences share is built once. On a GPU the non-uniform FFT is some hundred
// launches whatever the length.
bool by_nonuniform_fft(const torch::Tensor& x, bool shared_matrix = false) {
  constexpr int64_t kCrossover = 16, kSharedCrossover = 64, kGpuCrossover = 256;
  const int64_t on_cpu = shared_matrix ? kSharedCrossover : kCrossover;
  return x.size(1) >= (x.is_cpu() ? on_cpu : kGpuCrossover);
}

double vandermonde_scale(const MixerOptions& o) {
  return 1 / std::sqrt(2.0 * static_cast<double>(o.max_length * o.qk_dim));
}

class VandermondeDft : public Mixer {
 public:
  using Mixer::Mixer;

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto M = cosine_table(rows.L, rows.L, options_.max_length, rows.options) /
                   std::sqrt(static_cast<double>(options_.max_length));
    return with_identity(M).expand({1, heads_.H, rows.L, rows.L});
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    // Below length kDenseBelow, building the matrix is as fast. If the period max_length is more
    // than kLongPeriod times the sequence, a non-uniform FFT at the frequencies i / max_length is
    // faster than an FFT of that length.
    constexpr int64_t kDenseBelow = 128, kLongPeriod = 2;
    const int64_t n = options_.max_length, L = rows.L;
    if (L < kDenseBelow) return Mixer::product(x, params, rows);
    const auto transformed = [&] {
      if (n <= kLongPeriod * L || !by_nonuniform_fft(x)) return cosine_transform(x, n);
      const auto i = torch::arange(L, rows.options).view({1, 1, L, 1});  // exact: n <= 2^24
      return cosine_product(i.expand({1, heads_.H, L, 1}), x, 1 / static_cast<double>(n));
    };
    return transformed() / std::sqrt(static_cast<double>(n)) + x;
  }
};

class VandermondeDi : public Mixer {
 public:
  VandermondeDi(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    // Frequencies start spread over the whole band. With the published initial zeros every gradient
    // vanishes.
    const std::vector<int64_t> shape{heads.H, options.qk_dim, options.max_length};
    q_bias = register_parameter("q_bias", 0.5 * torch::rand(shape));
    k_bias = register_parameter("k_bias", 0.5 * torch::rand(shape));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const auto M =
        cosine_matrix(angles(q_bias, rows)) + cosine_matrix(angles(k_bias, rows)).transpose(2, 3);
    return with_identity(vandermonde_scale(options_) * M);
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    if (!by_nonuniform_fft(x, /*shared_matrix=*/true)) return Mixer::product(x, params, rows);
    const auto sum = cosine_product(angles(q_bias, rows), x) +
                     cosine_product_transposed(angles(k_bias, rows), x);
    return vandermonde_scale(options_) * sum + x;
  }

 private:
  torch::Tensor angles(const torch::Tensor& t, const Rows& rows) const {
    return weight(t, rows).narrow(2, 0, rows.L).transpose(1, 2).unsqueeze(0);  // (1, H, L, d)
  }

  torch::Tensor q_bias, k_bias;  // (H, d, max_length)
};

class VandermondeDd : public ProjectedQueryKey {
 public:
  VandermondeDd(Heads heads, const MixerOptions& options)
      : ProjectedQueryKey(heads, options, /*silu=*/false) {}

 protected:
  torch::Tensor matrix(const torch::Tensor& params, const Rows&) const override {
    const auto [q, k] = query_key(params);
    const auto M = cosine_matrix(q, kAngle) - cosine_matrix(k, kAngle).transpose(2, 3);
    return with_identity(vandermonde_scale(options_) * M);
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    if (!by_nonuniform_fft(x)) return Mixer::product(x, params, rows);
    const auto [q, k] = query_key(params);
    const auto difference = cosine_product(q, x, kAngle) - cosine_product_transposed(k, x, kAngle);
    return vandermonde_scale(options_) * difference + x;
  }

 private:
  static constexpr double kAngle = 1e-3;  // keeps angles small in long sequences
};

HYDRAMIX_REGISTER_MIXER("vandermonde_dft", VandermondeDft, .matrix_class = "DFT",
                        .formula = "cos(2 pi i j / max_length)", .cost = "O(L log L)",
                        .source = "FNet, Lee-Thorp et al. 2022", .extendable = false,
                        .capturable = false,
                        .choose =
                            "To reproduce table 2 of the Hydra paper: the Fourier transform per "
                            "head, nothing learned.");

HYDRAMIX_REGISTER_MIXER("vandermonde_di", VandermondeDi, .matrix_class = "Vandermonde",
                        .formula = "sum_d cos(2 pi q_id j) + cos(2 pi k_jd i)",
                        .cost = "O(L log L)", .source = "Hydra, Hwang et al. 2024",
                        .extendable = false, .capturable = false,
                        .choose = "To reproduce table 2 of the Hydra paper: learned frequencies.");

HYDRAMIX_REGISTER_MIXER(
    "vandermonde_dd", VandermondeDd, .matrix_class = "Vandermonde",
    .formula = "sum_d cos(2 pi e q_id j) - cos(2 pi e k_jd i)", .cost = "O(L log L)",
    .source = "Hydra, Hwang et al. 2024", .sequence_aligned = true, .capturable = false,
    .paper_aligned = true,
    .choose = "To reproduce table 2 of the Hydra paper: frequencies from the tokens.");

}  // namespace
}  // namespace hydramix
