// SPDX-License-Identifier: Apache-2.0
#include "ops/host_copy.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

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

c10::Stream stream_for_copies(torch::Device device) {
  return c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index());
}

std::shared_ptr<void> start_upload(const std::vector<torch::Tensor>& host, c10::Stream stream,
                                   std::vector<torch::Tensor>& device) {
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (const auto& t : host) device.push_back(t.to(stream.device(), /*non_blocking=*/true));
  auto copied = std::make_shared<at::cuda::CUDAEvent>();
  copied->record();
  return copied;
}

void use_after_copy(const std::shared_ptr<void>& copied, const std::vector<torch::Tensor>& device) {
  const auto current = c10::cuda::getCurrentCUDAStream(device.at(0).get_device());
  static_cast<at::cuda::CUDAEvent*>(copied.get())->block(current);
  for (const auto& t : device) t.record_stream(current);
}

}  // namespace hydramix::on_cuda
