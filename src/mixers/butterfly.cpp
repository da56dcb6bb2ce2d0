// SPDX-License-Identifier: Apache-2.0
// Butterfly matrices: products of K = log2 n sparse factors, n >= 2 the power of two that holds
// max_length. A shorter sequence uses the leading block.
//
//   B = F_{K-1} ... F_1 F_0     F_k mixes the positions i and i + 2^k (bit k of i is 0), each
//                               pair by a 2 x 2 block of its own
//   butterfly     M = B
//   kaleidoscope  M = the leading block of M_1 M_2 ... M_w, M_p = B_p1 B_p2^T of size e n: the
//                 class (BB*)^w_e, of width w and expansion e (1 and 1 by default). It holds every
//                 matrix with a fast product, with w and e in step with the cost (Dao et al. 2020,
//                 "Kaleidoscope: An Efficient, Learnable Representation For All Structured Linear
//                 Maps")
//
// Paper: table 1. Cost O(n log n), times w e log(e n) / log n for a kaleidoscope (ops/butterfly.h).
//
// Weights start as random rotations by angles of variance 1 / factors. Then M is orthogonal, and
// about 1/e of a row's energy is on its diagonal at every length, so the mixer needs no residual
// and no scale.
#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "ops/butterfly.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// The smallest K with 2^K >= length.
int64_t log2_ceil(int64_t length) {
  int64_t K = 0;
  while ((int64_t{1} << K) < length) ++K;
  return K;
}

// The weights of one B: (H, K, n / 2, 2, 2). Pair q 2^k + r of factor k are the positions
// i = q 2^{k+1} + r and i + 2^k, and its block is [out][in].
torch::Tensor random_rotations(int64_t H, int64_t K, double variance) {
  const auto angle = std::sqrt(variance) * torch::randn({H, K, int64_t{1} << (K - 1)});
  const auto c = angle.cos(), s = angle.sin();
  return torch::stack({torch::stack({c, -s}, -1), torch::stack({s, c}, -1)}, -2);
}

// (S, L, H, P) -> (H, n, S P), padded with zeros to n positions.
torch::Tensor by_heads(const torch::Tensor& x, int64_t n) {
  return torch::constant_pad_nd(x.permute({2, 1, 0, 3}).flatten(2), {0, 0, 0, n - x.size(1)});
}

// (H, n, S P) -> the shape of x, (S, L, H, P).
torch::Tensor by_rows(const torch::Tensor& v, const torch::Tensor& x) {
  return v.narrow(1, 0, x.size(1))
      .unflatten(2, std::vector<int64_t>{x.size(0), x.size(3)})
      .permute({2, 1, 0, 3});
}

class Butterfly : public Mixer {
 public:
  Butterfly(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t K = std::max<int64_t>(1, log2_ceil(options.max_length));
    factors =
        register_parameter("factors", random_rotations(heads.H, K, 1 / static_cast<double>(K)));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    return butterfly_matrix(weight(factors, rows), rows.L, rows.L).unsqueeze(0);
  }

  // If all positions after the first m = 2^k >= L are zero, factors below k stay within these m
  // positions, and the other factors multiply each position by the first entry of its block.
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    const auto w = weight(factors, rows);
    const int64_t k = log2_ceil(rows.L), m = int64_t{1} << k;
    auto y = by_heads(x, m);
    if (k > 0) y = butterfly_product(w.narrow(1, 0, k).narrow(2, 0, m / 2), y, false);
    for (int64_t above = k; above < w.size(1); ++above)
      y = y * w.select(1, above).select(2, 0).select(2, 0).narrow(1, 0, m).unsqueeze(2);
    return by_rows(y, x);
  }

 private:
  torch::Tensor factors;  // (H, K, n / 2, 2, 2)
};

// n and K here are those of the factors: expansion times those of a butterfly.
class Kaleidoscope : public Mixer {
 public:
  Kaleidoscope(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t w = options.kaleidoscope_width, e = options.kaleidoscope_expansion;
    HYDRAMIX_CHECK_USAGE((e & (e - 1)) == 0, "kaleidoscope: kaleidoscope_expansion = ", e,
                         " is not a power of two. The factors of a butterfly halve its size; use ",
                         int64_t{1} << log2_ceil(e), ".");
    const int64_t K = std::max<int64_t>(1, log2_ceil(options.max_length)) + log2_ceil(e);
    const double variance = 1 / static_cast<double>(2 * K * w);
    for (int64_t p = 0; p < w; ++p) {
      const auto add = [&](const std::string& name) {
        return register_parameter(p == 0 ? name : concat(name, "_", p + 1),
                                  random_rotations(heads.H, K, variance));
      };
      auto left = add("left");
      pairs.push_back({left, add("right")});
    }
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const int64_t n = 2 * pairs[0].left.size(2), L = rows.L;
    torch::Tensor M;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const bool first = p == 0, last = p + 1 == pairs.size();
      const auto B_1 = butterfly_matrix(weight(pairs[p].left, rows), first ? L : n, n),
                 B_2 = butterfly_matrix(weight(pairs[p].right, rows), last ? L : n, n);
      M = matrix_product(first ? B_1 : matrix_product(M, B_1), B_2.transpose(1, 2));
    }
    return M.unsqueeze(0);
  }

  // B_2^T spreads even a short sequence over all n positions.
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    auto v = by_heads(x, 2 * pairs[0].left.size(2));
    for (auto p = pairs.rbegin(); p != pairs.rend(); ++p)
      v = butterfly_product(weight(p->left, rows),
                            butterfly_product(weight(p->right, rows), v, true), false);
    return by_rows(v, x);
  }

 private:
  struct Pair {
    torch::Tensor left, right;  // (H, K, n / 2, 2, 2): B_1 and B_2 of one factor B_1 B_2^T
  };
  std::vector<Pair> pairs;  // (w)
};

HYDRAMIX_REGISTER_MIXER(
    "butterfly", Butterfly, .matrix_class = "Butterfly",
    .formula = "F_{K-1} .. F_0, 2 x 2 blocks at stride 2^k", .cost = "O(L log L)",
    .source = "Butterfly, Dao et al. 2019", .extendable = false, .paper_aligned = false,
    .choose = "To learn a fast transform, such as Hadamard's, at one fixed length.");

HYDRAMIX_REGISTER_MIXER(
    "kaleidoscope", Kaleidoscope, .matrix_class = "Butterfly",
    .formula = "(B_1 B_2^T)^w_e, butterflies of size e n", .cost = "O(L log L)",
    .source = "Kaleidoscope, Dao et al. 2020", .extendable = false, .paper_aligned = false,
    .choose =
        "As butterfly with more capacity: it holds every convolution over xor, and "
        "width and expansion add more.");

}  // namespace
}  // namespace hydramix
