// SPDX-License-Identifier: Apache-2.0
#include "ops/head_batch.h"

#include <ATen/ThreadLocalState.h>

#include <algorithm>

#include "ops/parallel.h"

namespace hydramix {

void for_heads(int64_t N, const torch::Device& device,
               const std::function<void(int64_t begin, int64_t count)>& task) {
  if (!device.is_cpu()) return task(0, N);
  const at::ThreadLocalState modes;
  parallel(N, [&](int64_t i) {
    const at::ThreadLocalStateGuard guard(modes);
    task(i, 1);
  });
}

int64_t piece_length(int64_t width, const torch::Tensor& like) {
  const int64_t heads = like.is_cpu() ? 1 : like.size(0);
  const int64_t bytes = int64_t{1} << (like.is_cpu() ? 18 : 28);
  return std::max<int64_t>(16, bytes / (heads * width * like.element_size()));
}

torch::Tensor to_head_batch(const torch::Tensor& x, bool shared) {
  return shared ? x.permute({2, 1, 0, 3}).flatten(2, 3).contiguous()
                : x.permute({0, 2, 1, 3}).flatten(0, 1).contiguous();
}

torch::Tensor from_head_batch(const torch::Tensor& heads, const torch::Tensor& x, bool shared) {
  const int64_t S = x.size(0), L = x.size(1), H = x.size(2), P = x.size(3);
  return shared ? heads.view({H, L, S, P}).permute({2, 1, 0, 3})
                : heads.view({S, H, L, P}).permute({0, 2, 1, 3});
}

}  // namespace hydramix
