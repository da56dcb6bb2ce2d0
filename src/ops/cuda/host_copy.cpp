// SPDX-License-Identifier: Apache-2.0
#include "ops/host_copy.h"

#include <ATen/cuda/CUDAEvent.h>

#include "ops/cuda/launch.h"

namespace hydramix::on_cuda {

std::shared_ptr<void> start_copy(const torch::Tensor& values, const torch::Tensor& host) {
  const c10::cuda::CUDAGuard guard(values.device());
  host.copy_(values, /*non_blocking=*/true);
  auto copied = std::make_shared<at::cuda::CUDAEvent>();
  copied->record();
  return copied;
}

void wait_for_copy(const std::shared_ptr<void>& copied) {
  static_cast<at::cuda::CUDAEvent*>(copied.get())->synchronize();
}

}  // namespace hydramix::on_cuda
