// SPDX-License-Identifier: Apache-2.0
// Butterfly matrices: products of K = log2 n sparse factors, n >= 2 the power of two that holds
// max_length. A shorter sequence uses the leading block.
//
//   B = F_{K-1} ... F_1 F_0     F_k mixes the places i and i + 2^k (bit k of i is 0), each pair by
//                               a 2 x 2 block of its own
//   butterfly     M = B
//   kaleidoscope  M = B_1 B_2^T: the class BB*; products of them represent every fast linear map
//
// Paper: table 1. Exactly one path leads from place j to place i, since factor k replaces bit k of
// j by bit k of i. So an entry of B is the product of the K weights on its path, which matrix()
// computes. The fast product multiplies up to kRun consecutive factors into dense blocks of size
// 2^kRun and applies these as batched GEMMs. It costs O(n log n) for the output and for both
// gradients, and saves K / kRun copies of x for the backward pass.
//
// Weights start as random rotations by angles of variance 1 / factors. Then M is orthogonal, and
// about 1/e of a row's energy is on its diagonal at every length, so the mixer needs no residual
// and no scale.
#include <algorithm>
#include <cmath>

#include "hydramix/registry.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// Blocks of 16 x 16. From 1024 to 65536 places, blocks of 8 are up to 50 % slower with the backward
// pass; blocks of 32 and 64 are equally fast and take two and four times the memory.
constexpr int64_t kRun = 4;

// The smallest K with 2^K >= length.
int64_t log2_ceil(int64_t length) {
  int64_t K = 0;
  while ((int64_t{1} << K) < length) ++K;
  return K;
}

// The weights of one B: (H, K, n / 2, 2, 2). Pair q 2^k + r of factor k are the places
// i = q 2^{k+1} + r and i + 2^k, and its block is [out][in].
torch::Tensor random_rotations(int64_t H, int64_t K, double variance) {
  const auto angle = std::sqrt(variance) * torch::randn({H, K, int64_t{1} << (K - 1)});
  const auto c = angle.cos(), s = angle.sin();
  return torch::stack({torch::stack({c, -s}, -1), torch::stack({s, c}, -1)}, -2);
}

// The leading (rows, cols) block of B -> (H, rows, cols): each entry is the product of the weights
// on its path.
torch::Tensor path_products(const torch::Tensor& w, int64_t rows, int64_t cols) {
  const auto integers = w.options().dtype(torch::kInt64);
  const auto i = torch::arange(rows, integers).unsqueeze(1), j = torch::arange(cols, integers);
  const auto bit = [](const torch::Tensor& t, int64_t k) {
    return t.div(int64_t{1} << k, "floor").remainder(2);
  };
  auto M = torch::ones({w.size(0), rows, cols}, w.options());
  for (int64_t k = 0; k < w.size(1); ++k) {
    // At factor k the path is at the place with the low bits of i and the high bits of j.
    const int64_t stride = int64_t{1} << k;
    const auto pair = j.div(2 * stride, "floor") * stride + i.remainder(stride);  // (rows, cols)
    const auto entry = 4 * pair + 2 * bit(i, k) + bit(j, k);
    M = M * w.select(1, k).flatten(1).index_select(1, entry.flatten()).view_as(M);
  }
  return M;
}

// The product of factors first .. first + count - 1 -> (H, Q, s, r, r). It replaces one digit, base
// r = 2^count, of the place; Q and s = 2^first are the ranges of the digits above and below it.
torch::Tensor run_of_factors(const torch::Tensor& w, int64_t first, int64_t count) {
  const int64_t H = w.size(0), n = 2 * w.size(2), s = int64_t{1} << first;
  torch::Tensor blocks;
  for (int64_t level = 0; level < count; ++level) {
    // Bits of the digit below `level` belong to the output already, the others still to the input.
    const int64_t below = int64_t{1} << level, Q = n / (2 * below * s);
    const auto top = w.select(1, first + level)
                         .reshape({H, Q, below, s, 2, 2})
                         .permute({0, 1, 3, 4, 2, 5});  // (H, Q, s, out, below out, in)
    if (level == 0) {
      blocks = top.squeeze(4);
      continue;
    }
    const auto rest = blocks.reshape({H, Q, 2, s, below, below}).permute({0, 1, 3, 4, 2, 5});
    blocks = (top.unsqueeze(6) * rest.unsqueeze(3)).reshape({H, Q, s, 2 * below, 2 * below});
  }
  return blocks;
}

// B v, or B^T v, for v (H, n, C).
torch::Tensor butterfly_product(const torch::Tensor& w, const torch::Tensor& v, bool transposed) {
  const int64_t H = v.size(0), K = w.size(1), runs = (K + kRun - 1) / kRun;
  const auto first = [&](int64_t run) { return K * run / runs; };
  // Views the place as digits, one per run, highest first, so that a run costs one copy of v.
  std::vector<int64_t> digits{H};
  for (int64_t run = runs - 1; run >= 0; --run)
    digits.push_back(int64_t{1} << (first(run + 1) - first(run)));
  auto y = v.unflatten(1, std::vector<int64_t>(digits.begin() + 1, digits.end()));
  for (int64_t step = 0; step < runs; ++step) {
    const int64_t run = transposed ? runs - 1 - step : step, dim = runs - run;
    auto blocks = run_of_factors(w, first(run), first(run + 1) - first(run));
    if (transposed) blocks = blocks.transpose(3, 4);
    auto shape = digits;
    shape.erase(shape.begin() + dim);
    shape.insert(shape.end(), {digits[dim], digits[dim]});
    y = matrix_product(blocks.reshape(shape), y.movedim(dim, -2)).movedim(-2, dim);
  }
  return y.reshape(v.sizes());
}

// (S, L, H, P) -> (H, n, S P), padded with zeros to n places.
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
    return path_products(weight(factors, rows), rows.L, rows.L).unsqueeze(0);
  }

  // If all places after the first m = 2^k >= L are zero, factors below k stay within these m
  // places, and the other factors multiply each place by the first entry of its block.
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

class Kaleidoscope : public Mixer {
 public:
  Kaleidoscope(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
    const int64_t K = std::max<int64_t>(1, log2_ceil(options.max_length));
    const double variance = 1 / static_cast<double>(2 * K);
    left = register_parameter("left", random_rotations(heads.H, K, variance));
    right = register_parameter("right", random_rotations(heads.H, K, variance));
  }

 protected:
  torch::Tensor matrix(const torch::Tensor&, const Rows& rows) const override {
    const int64_t n = 2 * left.size(2);
    const auto B_1 = path_products(weight(left, rows), rows.L, n),
               B_2 = path_products(weight(right, rows), rows.L, n);
    return matrix_product(B_1, B_2.transpose(1, 2)).unsqueeze(0);
  }

  // B_2^T spreads even a short sequence over all n places.
  torch::Tensor product(const torch::Tensor& x, const torch::Tensor&,
                        const Rows& rows) const override {
    const auto v = by_heads(x, 2 * left.size(2));
    return by_rows(butterfly_product(weight(left, rows),
                                     butterfly_product(weight(right, rows), v, true), false),
                   x);
  }

 private:
  torch::Tensor left, right;  // (H, K, n / 2, 2, 2): B_1 and B_2
};

HYDRAMIX_REGISTER_MIXER("butterfly", Butterfly, .matrix_class = "Butterfly",
                        .formula = "F_{K-1} .. F_0, 2 x 2 blocks at stride 2^k",
                        .cost = "O(L log L)", .source = "Butterfly, Dao et al. 2019",
                        .extendable = false);

HYDRAMIX_REGISTER_MIXER("kaleidoscope", Kaleidoscope, .matrix_class = "Butterfly",
                        .formula = "B_1 B_2^T, both butterflies", .cost = "O(L log L)",
                        .source = "Kaleidoscope, Dao et al. 2020", .extendable = false);

}  // namespace
}  // namespace hydramix
