// SPDX-License-Identifier: Apache-2.0
// Sums that stay in float32 although their terms are bfloat16.
#include "ops/projection.h"

#include "kernels/cuda/cross_entropy.h"
#include "ops/cuda/launch.h"
#include "ops/kernel_tensors.h"

namespace hydramix::on_cuda {

torch::Tensor product_in_float(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.size(1) == 0)
    return torch::zeros({a.size(0), b.size(1)}, a.options().dtype(torch::kFloat32));
  return mm_to_float32(a, b);
}

torch::Tensor column_sums(const torch::Tensor& t) {
  const c10::cuda::CUDAGuard guard(t.device());
  const auto rows = packed_rows(t);
  const auto C = static_cast<int>(t.size(1));
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(t.device());
  const auto sums = torch::zeros({t.size(1)}, options);
  const auto work = torch::empty({cuda::column_sums_workspace(t.size(0), C)}, options);
  dispatch(rows, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::add_column_sums<S>(rows.size(0), C, data<S>(rows), rows.stride(0),
                                   sums.data_ptr<float>(), work.data_ptr<float>(), stream()),
          "sums");
  });
  return sums;
}

}  // namespace hydramix::on_cuda
