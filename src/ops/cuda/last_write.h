// SPDX-License-Identifier: Apache-2.0
// For what is written once and read by later calls, perhaps on other streams than the first: a
// stream that reads waits for the write. The event is recorded right after the write, while its
// stream is there for sure: later that may be gone. Only files that are compiled where the library
// has GPU kernels include this.
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

  // Again.
  void record() {
    writer_ = at::cuda::getCurrentCUDAStream(writer_.device_index());
    if (!is_recorded(writer_)) done_.record(writer_);
  }

  // Whether the current stream is another than the writer, for which it waits now. A stream that is
  // recorded does not wait: a graph starts when its stream has come to rest.
  bool join() {
    const auto now = at::cuda::getCurrentCUDAStream(writer_.device_index());
    if (now == writer_ || !done_.isCreated() || is_recorded(now)) return false;
    done_.block(now);
    return true;
  }

 private:
  static bool is_recorded(const at::cuda::CUDAStream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream.stream(), &status) == cudaSuccess)
      return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();  // the default stream, while another thread records: not to be asked
    return true;
  }

  at::cuda::CUDAStream writer_;  // to compare with: it may have been destroyed
  at::cuda::CUDAEvent done_;
};

}  // namespace hydramix::on_cuda
