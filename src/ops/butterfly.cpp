// SPDX-License-Identifier: Apache-2.0
#include "ops/butterfly.h"

#include <vector>

#include "ops/product.h"

namespace hydramix {
namespace {

// Blocks of 16 x 16. From 1024 to 65536 positions, blocks of 8 are up to 50 % slower with the
// backward pass; blocks of 32 and 64 are equally fast and take two and four times the memory.
constexpr int64_t kRun = 4;

// The product of factors first .. first + count - 1 -> (H, Q, s, r, r). It replaces one digit, base
// r = 2^count, of the position; Q and s = 2^first are the ranges of the digits above and below it.
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

}  // namespace

torch::Tensor butterfly_matrix(const torch::Tensor& w, int64_t rows, int64_t cols) {
  const auto integers = w.options().dtype(torch::kInt64);
  const auto i = torch::arange(rows, integers).unsqueeze(1), j = torch::arange(cols, integers);
  const auto bit = [](const torch::Tensor& t, int64_t k) {
    return t.div(int64_t{1} << k, "floor").remainder(2);
  };
  auto M = torch::ones({w.size(0), rows, cols}, w.options());
  for (int64_t k = 0; k < w.size(1); ++k) {
    // At factor k the path is at the position with the low bits of i and the high bits of j.
    const int64_t stride = int64_t{1} << k;
    const auto pair = j.div(2 * stride, "floor") * stride + i.remainder(stride);  // (rows, cols)
    const auto entry = 4 * pair + 2 * bit(i, k) + bit(j, k);
    M = M * w.select(1, k).flatten(1).index_select(1, entry.flatten()).view_as(M);
  }
  return M;
}

torch::Tensor butterfly_product(const torch::Tensor& w, const torch::Tensor& v, bool transposed) {
  const int64_t H = v.size(0), K = w.size(1), runs = (K + kRun - 1) / kRun;
  const auto first = [&](int64_t run) { return K * run / runs; };
  // Views the position as digits, one per run, highest first, so that a run costs one copy of v.
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

}  // namespace hydramix
