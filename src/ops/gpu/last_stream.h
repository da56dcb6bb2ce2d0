// SPDX-License-Identifier: Apache-2.0
// For what is made once and read by later calls, perhaps on other streams than the first: a stream
// that reads waits for the one before it. Only files that are compiled where the library has GPU
// kernels include this.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

class LastStream {
 public:
  explicit LastStream(torch::Device device)
      : last_(at::cuda::getCurrentCUDAStream(device.index())) {}

  // Whether the current stream is another than the last one, for which it waits now. While one of
  // them is recorded nothing is waited for: a graph starts when its stream has come to rest.
  bool join() {
    const auto now = at::cuda::getCurrentCUDAStream(last_.device_index());
    if (now == last_ || is_recorded(now) || is_recorded(last_)) return false;
    at::cuda::CUDAEvent done;
    done.record(last_);
    done.block(now);
    last_ = now;
    return true;
  }

 private:
  static bool is_recorded(const at::cuda::CUDAStream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream.stream(), &status) == cudaSuccess)
      return status != cudaStreamCaptureStatusNone;
    cudaGetLastError();  // the default stream, while another thread records: not to be asked now
    return true;
  }

  at::cuda::CUDAStream last_;
};

}  // namespace hydramix::gpu
