// SPDX-License-Identifier: Apache-2.0
// Copies between host and GPU that do not make the host wait for work launched before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Numbers that a device has yet to compute. They are copied to the host as soon as they are ready,
// and read when they are needed. On the CPU they are known at once.
class LateNumbers {
 public:
  explicit LateNumbers(const torch::Tensor& values);  // (n) float64
  std::vector<double> wait() const;

 private:
  torch::Tensor host_;
  std::shared_ptr<void> copied_;  // an event of the device, or null
};

// Whether the host goes on while this device computes, as it does with a GPU.
bool runs_beside_host(torch::Device device);

// t on the host, in pinned memory if it is to be copied to a GPU: such a copy does not wait. The
// memory belongs to the thread's current GPU.
torch::Tensor ready_for_upload(const torch::Tensor& t, torch::Device device);

// The values as a tensor (n) on the device.
torch::Tensor upload(const std::vector<int64_t>& values, torch::Device device);
torch::Tensor upload(const std::vector<double>& values, torch::Device device);

// Memory for n numbers, from which a copy to the device does not wait. It belongs to the thread's
// current GPU.
std::shared_ptr<float[]> memory_for_upload(int64_t n, torch::Device device);

// Tensors on their way from the host to a device.
class Upload {
 public:
  Upload() = default;
  // Waits for the copy, which reads the host tensors.
  ~Upload();
  Upload(Upload&&) = default;
  Upload& operator=(Upload&&) = delete;

  // The tensors on the device, for work that this thread launches from now on.
  const std::vector<torch::Tensor>& tensors() const;

 private:
  friend class Uploader;
  std::vector<torch::Tensor> host_, device_;
  std::shared_ptr<void> copied_;  // an event of the device, or null
};

// Copies to a GPU on a stream of its own, so that a copy begins at once and runs beside the work
// that was launched before. For a CPU there is nothing to copy.
class Uploader {
 public:
  explicit Uploader(torch::Device device);
  // host: ready_for_upload(). They must not change during the lifetime of the Upload.
  Upload start(std::vector<torch::Tensor> host) const;

 private:
  torch::Device device_;
  std::optional<c10::Stream> stream_;
};

namespace on_cuda {
// Starts to copy `values` to `host`, in pinned memory; returns an event for wait_for_copy().
std::shared_ptr<void> start_copy(const torch::Tensor& values, const torch::Tensor& host);
void wait_for_copy(const std::shared_ptr<void>& copied);

c10::Stream stream_for_copies(torch::Device device);
// Starts to copy `host` to new tensors on the stream's device; returns an event.
std::shared_ptr<void> start_upload(const std::vector<torch::Tensor>& host, c10::Stream stream,
                                   std::vector<torch::Tensor>& device);
// The thread's current stream waits for the event, and keeps the memory of the tensors.
void use_after_copy(const std::shared_ptr<void>& copied, const std::vector<torch::Tensor>& device);
}  // namespace on_cuda

}  // namespace hydramix
