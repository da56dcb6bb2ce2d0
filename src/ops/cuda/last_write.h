// SPDX-License-Identifier: Apache-2.0
// For memory that is written once and read by later calls, perhaps on other streams: a reading
// stream waits for the write. The event is recorded right after the write, because the stream may
// be destroyed later. Included only by files that are compiled with the GPU kernels.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>

#include "hydramix/torch_compat.h"

namespace hydramix::on_cuda {

class LastWrite {
 public:
  // The current stream has just written.
  explicit LastWrite(torch::Device device)
      : writer_(at::cuda::getCurrentCUDAStream(device.index())) {
    record();
  }

  // The current stream has written again.
  void record() {
    writer_ = at::cuda::getCurrentCUDAStream(writer_.device_index());
    if (!is_capturing(writer_)) done_.record(writer_);
  }

  // Makes the current stream wait for the write, and returns whether it had to. A capturing stream
  // does not wait: a graph starts when its stream is idle.
  bool join() {
    const auto now = at::cuda::getCurrentCUDAStream(writer_.device_index());
    if (now == writer_ || !done_.isCreated() || is_capturing(now)) return false;
    done_.block(now);
    return true;
  }

 private:
  static bool is_capturing(const at::cuda::CUDAStream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream.stream(), &status) == cudaSuccess)
      return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();  // the default stream cannot be queried while another thread captures
    return true;
  }

  at::cuda::CUDAStream writer_;  // only for comparison: it may have been destroyed
  at::cuda::CUDAEvent done_;
};

}  // namespace hydramix::on_cuda
