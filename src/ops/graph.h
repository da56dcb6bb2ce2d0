// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: work on a GPU that is captured once and then launched as a whole, which spares the
// host the cost of every single operation.
#pragma once

#include <functional>
#include <memory>

#include "hydramix/torch_compat.h"

namespace hydramix {

// While it lives, this thread's work goes to a stream of its own. A training step can be captured
// only if everything it consists of was made in such a scope: autograd remembers streams. On a CPU,
// and in a library without GPU kernels, it does nothing.
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

// The captured work of f; capturing does not execute it. f must do the same each time, with tensors
// that stay where they are, read no result on the host, and have run before, so that what it needs
// exists. Memory that f allocates belongs to the graph: a result is valid until the next replay.
// Needs an OwnStream. Throws in a library without GPU kernels.
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
