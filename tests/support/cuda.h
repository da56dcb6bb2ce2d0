// SPDX-License-Identifier: Apache-2.0
// Device memory for tests of kernels without LibTorch. Without a GPU these tests skip.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace hydramix::cuda {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

#define SKIP_WITHOUT_GPU() \
  if (!::hydramix::cuda::has_gpu()) GTEST_SKIP() << "no GPU on this machine"
#define ASSERT_CUDA(call) ASSERT_EQ(cudaSuccess, (call)) << cudaGetErrorString(cudaGetLastError())

// n values on the device, filled with NaN bits, so that missing writes are detected.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t n) : n_(n) {
    EXPECT_EQ(cudaSuccess, cudaMalloc(&data_, bytes()));
    EXPECT_EQ(cudaSuccess, cudaMemset(data_, 0xff, bytes()));
  }
  explicit DeviceBuffer(const std::vector<T>& values)
      : DeviceBuffer(static_cast<int64_t>(values.size())) {
    EXPECT_EQ(cudaSuccess,
              cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> host() const {
    std::vector<T> values(static_cast<std::size_t>(n_));
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    EXPECT_EQ(cudaSuccess,
              cudaMemcpy(values.data(), data_, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(n_ > 0 ? n_ : 1) * sizeof(T); }
  int64_t n_;
  void* data_ = nullptr;
};

inline double wide(float v) { return v; }
inline double wide(__nv_bfloat16 v) { return __bfloat162float(v); }

// Values rounded to a storage type.
template <typename S>
std::vector<S> stored(const std::vector<double>& values) {
  std::vector<S> result;
  for (const double v : values) result.push_back(S(static_cast<float>(v)));
  return result;
}
template <typename S>
std::vector<double> widened(const std::vector<S>& values) {
  std::vector<double> result;
  for (const S v : values) result.push_back(wide(v));
  return result;
}

inline std::vector<double> normal_values(int64_t n, uint64_t seed, double deviation = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (auto& v : values) v = normal(generator);
  return values;
}

// ||a - b|| / ||b||; infinite if a has a NaN.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  if (!std::isfinite(difference)) return INFINITY;
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

// The first C columns of a matrix with `extra` more, which are NaN; and back.
template <typename S>
std::vector<S> beside(const std::vector<double>& values, int64_t C, int64_t extra) {
  std::vector<S> wider;
  for (std::size_t i = 0; i < values.size(); ++i) {
    wider.push_back(S(static_cast<float>(values[i])));
    if (static_cast<int64_t>(i % C) == C - 1) wider.insert(wider.end(), extra, S(NAN));
  }
  return wider;
}
template <typename S>
std::vector<double> without(const std::vector<S>& wider, int64_t C, int64_t extra) {
  std::vector<double> values;
  for (std::size_t i = 0; i < wider.size(); ++i) {
    if (static_cast<int64_t>(i % (C + extra)) < C)
      values.push_back(wide(wider[i]));
    else  // DeviceBuffer filled it with NaN.
      EXPECT_TRUE(std::isnan(wide(wider[i]))) << "column of others was written";
  }
  return values;
}

}  // namespace hydramix::cuda
