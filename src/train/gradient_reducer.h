// SPDX-License-Identifier: Apache-2.0
// Gradients summed over ranks, in buckets that travel while backward is still at work.
//
// Backward reaches the last layers first, so buckets are cut from the end of the flat gradient. A
// bucket is sent as soon as all of its gradients are accumulated, and buckets are sent strictly in
// order, which makes the order the same on every rank whatever order autograd takes.
//
//   GradientReducer reducer(comm, params, flat, 25 << 20);
//   for each step:  backward of all micro-batches but the last
//                   reducer.arm();  backward of the last;  reducer.finish();  use flat
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/communicator.h"

namespace hydramix {

class GradientReducer {
 public:
  // params: in the order in which their gradients lie in `flat`, (n), of which their .grad() are
  // views; what lies between them is summed too, to no harm. Neither may be replaced while the
  // reducer lives (zero `flat`, do not reset gradients to none). A bucket has at least
  // `bucket_bytes` bytes, but for the last to be sent.
  GradientReducer(Communicator& communicator, std::vector<torch::Tensor> params, torch::Tensor flat,
                  int64_t bucket_bytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void arm();     // before the last backward of a step
  void finish();  // sends what is left (parameters that got no gradient), waits for all buckets

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which autograd may keep longer
};

}  // namespace hydramix
