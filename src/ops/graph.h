// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: work on a GPU is captured once and then launched as a whole, which avoids the launch
// overhead of single operations.
#pragma once

#include <functional>
#include <memory>

#include "hydramix/torch_compat.h"
#include "ops/backend.h"

namespace hydramix {

// Whether work on this device can be captured: only on a GPU, in a library with GPU kernels.
inline bool can_capture(torch::Device device) { return device.is_cuda() && has_cuda_kernels(); }

// Sends this thread's work to a separate stream until the end of the scope. A training step can be
// captured only if all of its tensors were made in such a scope, because autograd remembers
// streams. Does nothing on a CPU and in a library without GPU kernels.
class OwnStream {
 public:
  explicit OwnStream(torch::Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Gives this thread a stream of its own for all of its work to come, unless it has one. Its work
// then runs beside that of other threads. Does nothing on a CPU and in a library without GPU
// kernels.
void take_own_stream(torch::Device device);

// Captures f into a CUDA graph without running it. f must launch the same work every time, on
// tensors that do not move, and must not read results on the host. It must have run once before, so
// that everything it caches exists. Memory that f allocates belongs to the graph, so its results
// are valid until the next replay. Needs an OwnStream. Throws in a library without GPU kernels.
class Graph {
 public:
  explicit Graph(const std::function<void()>& f);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydramix
