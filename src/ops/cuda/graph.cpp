// SPDX-License-Identifier: Apache-2.0
#include "ops/graph.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "ops/cuda/launch.h"

namespace hydramix {

struct OwnStream::State {
  c10::cuda::CUDAStream outer;
  c10::cuda::CUDAStreamGuard guard;
};

namespace {

// A stream that waits for the work of `outer`.
c10::cuda::CUDAStream stream_after(const c10::cuda::CUDAStream& outer) {
  const auto own = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, outer.device_index());
  at::cuda::CUDAEvent done;
  done.record(outer);
  done.block(own);
  return own;
}

c10::cuda::CUDAStream current_stream(torch::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.has_index() ? device.index()
                                                            : c10::cuda::current_device());
}

}  // namespace

OwnStream::OwnStream(torch::Device device) {
  if (!device.is_cuda()) return;
  const auto outer = current_stream(device);
  state_.reset(new State{outer, c10::cuda::CUDAStreamGuard(stream_after(outer))});
}

void take_own_stream(torch::Device device) {
  if (!device.is_cuda()) return;
  const auto outer = current_stream(device);
  if (outer != c10::cuda::getDefaultCUDAStream(outer.device_index())) return;
  c10::cuda::setCurrentCUDAStream(stream_after(outer));
}

OwnStream::~OwnStream() {
  if (!state_) return;
  try {
    at::cuda::CUDAEvent done;
    done.record(state_->guard.current_stream());
    done.block(state_->outer);
  } catch (const std::exception&) {
    // The device has failed; its next call reports that.
  }
}

namespace {

// LibTorch's allocator and its random generator support one capture at a time, and destroying a
// graph changes both.
std::mutex capturing;

}  // namespace

struct Graph::State {
  at::cuda::CUDAGraph graph;
};

Graph::Graph(const std::function<void()>& f) : state_(std::make_unique<State>()) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  HYDRAMIX_CHECK(stream != c10::cuda::getDefaultCUDAStream(stream.device_index()),
                 "graph: work on the default stream cannot be captured. Make an OwnStream first.");
  const std::lock_guard one_at_a_time(capturing);
  stream.synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // a capture cannot use memory that others cache
  // Other threads may continue to use the device.
  state_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    f();
  } catch (...) {
    try {
      state_->graph.capture_end();
    } catch (...) {  // the first error is the cause
    }
    throw;
  }
  state_->graph.capture_end();
}

Graph::~Graph() {
  const std::lock_guard one_at_a_time(capturing);
  state_.reset();
}

void Graph::replay() { state_->graph.replay(); }

}  // namespace hydramix
