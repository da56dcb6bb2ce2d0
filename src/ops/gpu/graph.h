// SPDX-License-Identifier: Apache-2.0
// Work on a GPU, recorded once and then launched as a whole: what the host does for each operation
// is done with.
#pragma once

#include <functional>
#include <memory>

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// Work of this thread goes to a stream of its own, as long as it lives. A training step can be
// recorded only if everything it consists of was made in such a scope: autograd remembers streams.
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

// A recording of what f does, which is not done meanwhile. f must do the same each time, with
// tensors that stay where they are, look at no result, and have run before, so that what it needs
// is there. What f allocates belongs to the recording: a result is valid until the next replay. In
// the scope of an OwnStream.
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

}  // namespace hydramix::gpu
