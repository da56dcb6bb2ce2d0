// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/graph.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "ops/gpu/launch.h"

namespace hydramix::gpu {

struct OwnStream::State {
  c10::cuda::CUDAStream outer;
  c10::cuda::CUDAStreamGuard guard;
};

OwnStream::OwnStream(torch::Device device) {
  const auto index = device.has_index() ? device.index() : c10::cuda::current_device();
  const auto outer = c10::cuda::getCurrentCUDAStream(index);
  const auto own = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index);
  at::cuda::CUDAEvent done;
  done.record(outer);
  done.block(own);
  state_.reset(new State{outer, c10::cuda::CUDAStreamGuard(own)});
}

OwnStream::~OwnStream() {
  try {
    at::cuda::CUDAEvent done;
    done.record(state_->guard.current_stream());
    done.block(state_->outer);
  } catch (const std::exception&) {
    // The device has failed: whoever asks it next is told so.
  }
}

namespace {

// LibTorch's memory knows of one recording at a time.
std::mutex recording;

}  // namespace

struct Graph::State {
  at::cuda::CUDAGraph graph;
};

Graph::Graph(const std::function<void()>& f) : state_(std::make_unique<State>()) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  HYDRAMIX_CHECK(stream != c10::cuda::getDefaultCUDAStream(stream.device_index()),
                 "graph: work on the default stream cannot be recorded. Make an OwnStream first.");
  const std::lock_guard one_at_a_time(recording);
  stream.synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // a recording cannot use what others keep
  // What other threads do meanwhile is their own.
  state_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    f();
  } catch (...) {
    try {
      state_->graph.capture_end();
    } catch (...) {  // the first error says more
    }
    throw;
  }
  state_->graph.capture_end();
}

Graph::~Graph() = default;

void Graph::replay() { state_->graph.replay(); }

}  // namespace hydramix::gpu
