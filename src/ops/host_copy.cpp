// SPDX-License-Identifier: Apache-2.0
#include "ops/host_copy.h"

#include "ops/backend.h"

namespace hydramix {
namespace {

template <class T>
torch::Tensor uploaded(const std::vector<T>& values, torch::ScalarType type, torch::Device device) {
  const auto host = ready_for_upload(torch::tensor(values, type), device);
  return runs_beside_host(device) ? host.to(device, /*non_blocking=*/true) : host;
}

}  // namespace

LateNumbers::LateNumbers(const torch::Tensor& values) {
  if (!values.is_cuda() || !has_cuda_kernels()) {
    host_ = values.to(torch::kCPU, torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
    return;
  }
  host_ = torch::empty(values.sizes(), torch::TensorOptions(torch::kFloat64).pinned_memory(true));
  copied_ = on_cuda::start_copy(values, host_);
}

std::vector<double> LateNumbers::wait() const {
  if (copied_) on_cuda::wait_for_copy(copied_);
  return {host_.data_ptr<double>(), host_.data_ptr<double>() + host_.numel()};
}

bool runs_beside_host(torch::Device device) { return device.is_cuda(); }

// A copy from pageable memory waits until the device reaches it. From pinned memory it does not;
// LibTorch keeps the memory until then.
torch::Tensor ready_for_upload(const torch::Tensor& t, torch::Device device) {
  return runs_beside_host(device) ? t.pin_memory() : t;
}

std::shared_ptr<float[]> memory_for_upload(int64_t n, torch::Device device) {
  if (!runs_beside_host(device))
    return std::make_shared_for_overwrite<float[]>(static_cast<std::size_t>(n));
  const auto t = torch::empty({n}, torch::TensorOptions(torch::kFloat32).pinned_memory(true));
  return {t.data_ptr<float>(), [t](float*) {}};
}

Uploader::Uploader(torch::Device device) : device_(device) {
  if (runs_beside_host(device) && has_cuda_kernels()) stream_ = on_cuda::stream_for_copies(device);
}

Upload Uploader::start(std::vector<torch::Tensor> host) const {
  Upload upload;
  if (stream_)
    upload.copied_ = on_cuda::start_upload(host, *stream_, upload.device_);
  else
    for (const auto& t : host) upload.device_.push_back(t.to(device_));
  upload.host_ = std::move(host);
  return upload;
}

Upload::~Upload() {
  if (copied_) on_cuda::wait_for_copy(copied_);
}

const std::vector<torch::Tensor>& Upload::tensors() const {
  if (copied_) on_cuda::use_after_copy(copied_, device_);
  return device_;
}

torch::Tensor upload(const std::vector<int64_t>& values, torch::Device device) {
  return uploaded(values, torch::kInt64, device);
}
torch::Tensor upload(const std::vector<double>& values, torch::Device device) {
  return uploaded(values, torch::kFloat64, device);
}

}  // namespace hydramix
