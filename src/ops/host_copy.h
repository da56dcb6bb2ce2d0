// SPDX-License-Identifier: Apache-2.0
// Copies between host and GPU that do not make the host wait for work launched before.
#pragma once

#include <memory>
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

namespace on_cuda {
// Starts to copy `values` to `host`, in pinned memory; returns an event for wait_for_copy().
std::shared_ptr<void> start_copy(const torch::Tensor& values, const torch::Tensor& host);
void wait_for_copy(const std::shared_ptr<void>& copied);
}  // namespace on_cuda

}  // namespace hydramix
