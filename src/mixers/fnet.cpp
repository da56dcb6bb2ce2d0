// SPDX-License-Identifier: Apache-2.0
// FNet: Y = Re(F_L X F_D), the Fourier transform along the sequence and along all channels. Split
// into its two real matrices along the sequence,
//
//   branch 0:  cos(2 pi i j / L)      branch 1:  -sin(2 pi i j / L)
//   combine:   y_0 cos(2 pi c d / D) + y_1 sin(2 pi c d / D) over the D = H P channels
//
// Paper: proposition 2.7. Nothing is learned. Cost O(L log L). L is the sequence's own length, so
// the leading block of the matrix changes as the sequence grows. The mixer is therefore not
// sequence aligned.
#include "hydramix/registry.h"
#include "ops/cosine.h"
#include "ops/fourier.h"

namespace hydramix {
namespace {

class FNet : public Mixer {
 public:
  using Mixer::Mixer;

  int64_t branches() const override { return 2; }
  int64_t combined_heads() const override { return heads_.H; }

  torch::Tensor combine(const torch::Tensor& y) const override {
    if (y.numel() == 0) return y.narrow(2, 0, heads_.H);  // some FFT libraries reject empty tensors
    const auto type = y.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const auto real = y.narrow(2, 0, heads_.H).flatten(2).to(type);  // (B, L, D)
    const auto imaginary = y.narrow(2, heads_.H, heads_.H).flatten(2).to(type);
    const auto mixed = torch::real(torch::fft::fft(torch::complex(real, imaginary)));
    return mixed.unflatten(2, std::vector<int64_t>{heads_.H, heads_.P}).to(y.scalar_type());
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    std::vector<torch::Tensor> each;
    for (const int64_t length : lengths(rows)) {
      const auto cos = cosine_table(rows.L, rows.L, length, rows.options);
      const auto sin = sine_table(rows.L, rows.L, length, rows.options);
      each.push_back(torch::stack({cos, -sin}).repeat_interleave(heads_.H, 0));  // (2 H, L, L)
    }
    return torch::stack(each);
  }

  torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                        const Rows& rows) const override {
    constexpr int64_t kDenseBelow = 96;  // below this length, building the matrix is as fast
    if (rows.L < kDenseBelow) return Mixer::product(x, params, rows);
    if (!rows.valid.defined()) return fourier_transform(x);
    std::vector<torch::Tensor> each;
    const auto length = lengths(rows);
    for (int64_t s = 0; s < rows.S; ++s) {
      const auto y = fourier_transform(x.narrow(0, s, 1).narrow(1, 0, length[s]));
      each.push_back(torch::constant_pad_nd(y, {0, 0, 0, 0, 0, rows.L - length[s]}));
    }
    return torch::cat(each);
  }

 private:
  // One length per row, or a single one for all rows.
  static std::vector<int64_t> lengths(const Rows& rows) {
    if (!rows.valid.defined()) return {rows.L};
    const auto counts = rows.valid.sum(1).to(torch::kCPU);
    return {counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + counts.numel()};
  }
};

HYDRAMIX_REGISTER_MIXER("fnet", FNet, .matrix_class = "DFT",
                        .formula = "w^(i j), w = exp(-2 pi sqrt(-1) / L)", .cost = "O(L log L)",
                        .source = "FNet, Lee-Thorp et al. 2022", .paper_aligned = false,
                        .choose = "To compare with FNet: a mixer without parameters.",
                        .published = "style=bare expand=1");

}  // namespace
}  // namespace hydramix
