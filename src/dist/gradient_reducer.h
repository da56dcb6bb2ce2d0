// SPDX-License-Identifier: Apache-2.0
// Sums gradients over ranks in buckets, while backward is still running.
//
// Backward reaches the last layers first, so buckets are cut from the end of the flat gradient. A
// bucket is sent as soon as all of its gradients are accumulated. Buckets are sent strictly in
// order, so every rank sends them in the same order, whatever order autograd takes.
//
//   GradientReducer reducer(comm, params, flat, 25 << 20);
//   for each step:  backward of all micro-batches but the last
//                   reducer.arm();  backward of the last;  reducer.finish();  use flat
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/communicator.h"

namespace hydramix {

class GradientReducer {
 public:
  // params: in the order of their gradients in `flat`, (n). Each .grad() is a view of `flat`; gaps
  // between them are summed too, which does no harm. Neither may be replaced while the reducer
  // lives: zero `flat` instead of resetting gradients to none. Every bucket but the last to be sent
  // has at least `bucket_bytes` bytes.
  GradientReducer(Communicator& communicator, std::vector<torch::Tensor> params, torch::Tensor flat,
                  int64_t bucket_bytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  void arm();     // before the last backward of a step
  void finish();  // sends the remaining buckets (parameters without a gradient), waits for all

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which autograd may keep longer
};

}  // namespace hydramix
