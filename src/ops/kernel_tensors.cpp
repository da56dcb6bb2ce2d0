// SPDX-License-Identifier: Apache-2.0
#include "ops/kernel_tensors.h"

#include "hydramix/error.h"
#include "ops/parallel.h"

namespace hydramix {

torch::Tensor packed_rows(const torch::Tensor& t) {
  int64_t expected = 1;
  for (int64_t d = t.dim() - 1; d > 0; expected *= t.size(d--))
    if (t.size(d) != 1 && t.stride(d) != expected) return t.contiguous();
  return t;
}

torch::Tensor ordered_sum(const torch::Tensor& t) {
  constexpr int64_t kRows = 1024;
  const int64_t n = t.size(0), C = t.size(1), blocks = (n + kRows - 1) / kRows;
  std::vector<double> sums(static_cast<std::size_t>(blocks * C), 0.0);
  const auto rows = packed_rows(t);
  dispatch_storage(rows, [&](auto tag) {
    using S = decltype(tag);
    const S* data = storage<S>(rows);
    parallel(blocks, [&](int64_t block) {
      double* sum = sums.data() + block * C;
      for (int64_t r = block * kRows; r < std::min(n, (block + 1) * kRows); ++r)
        for (int64_t c = 0; c < C; ++c)
          sum[c] += static_cast<double>(kernels::widen(data[r * rows.stride(0) + c]));
    });
    return 0;
  });
  const auto total = torch::zeros({C}, torch::kFloat64);
  auto* to = total.data_ptr<double>();
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t c = 0; c < C; ++c) to[c] += sums[static_cast<std::size_t>(block * C + c)];
  return total.to(t.scalar_type());
}

void check_offsets(const char* who, const std::vector<int64_t>& offsets, int64_t n) {
  HYDRAMIX_CHECK(
      !offsets.empty() && offsets.front() == 0 && offsets.back() == n &&
          std::is_sorted(offsets.begin(), offsets.end()),
      who, ": offsets must rise from 0 to the ", n, " tokens; got ", offsets.size(), " of them, ",
      offsets.empty() ? "none" : concat("from ", offsets.front(), " to ", offsets.back()),
      ". Give the running sum of the lengths with a 0 in front.");
}

BackwardPass::BackwardPass(const char* who) {
  HYDRAMIX_CHECK(
      !torch::GradMode::is_enabled(), who,
      ": has no second derivative: a kernel computes its gradient. Call backward() without "
      "create_graph, or differentiate the matrix that materialize() gives.");
}

bool wants_gradient(const std::vector<torch::Tensor>& inputs) {
  return torch::GradMode::is_enabled() &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const torch::Tensor& t) { return t.defined() && t.requires_grad(); });
}

}  // namespace hydramix
