// SPDX-License-Identifier: Apache-2.0
#include "models/device.h"

#include "hydramix/error.h"

namespace hydramix {

torch::Device choose_device(const std::string& name, int64_t local_rank) {
  const bool cuda = torch::cuda::is_available();
  HYDRAMIX_CHECK_USAGE(
      name != "cuda" || cuda,
      "device: cuda was asked for, but this LibTorch finds no GPU. Use device=cpu, "
      "or a LibTorch with CUDA on a machine with a GPU.");
  if (name == "cpu" || !cuda) return torch::kCPU;
  // A launcher may show each rank only its own GPU.
  const auto count = static_cast<int64_t>(torch::cuda::device_count());
  HYDRAMIX_CHECK_USAGE(count == 1 || local_rank < count, "device: this machine runs more ranks (",
                       local_rank + 1, " or more) than it has GPUs (", count,
                       "). Start as many ranks as GPUs.");
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(count == 1 ? 0 : local_rank)};
}

torch::ScalarType choose_precision(const std::string& name, torch::Device device) {
  HYDRAMIX_CHECK_USAGE(name != "bfloat16" || device.is_cuda(),
                       "precision: bfloat16 is for GPUs; on the CPU use float32.");
  return name == "bfloat16" || (name == "auto" && device.is_cuda()) ? torch::kBFloat16
                                                                    : torch::kFloat32;
}

}  // namespace hydramix
