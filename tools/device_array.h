// SPDX-License-Identifier: Apache-2.0
// Memory of the device for the tools that time kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>

namespace hydramix::cuda {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// `count` zeros.
template <class T>
struct DeviceArray {
  explicit DeviceArray(int64_t count) : size(count) {
    check(cudaMalloc(&data, count * sizeof(T)));
    check(cudaMemset(data, 0, count * sizeof(T)));
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data = nullptr;
  int64_t size;
};

}  // namespace hydramix::cuda
