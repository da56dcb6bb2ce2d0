// SPDX-License-Identifier: Apache-2.0
// A complex recurrence with a fixed factor per channel and real input,
//
//   h_t = lambda h_{t-1} + x_t
//
// Both parts of h are the output. Lanes of a vector are channels. The state is float64 whatever the
// storage: lambda rounded to float32 would turn by 6e-8 too much or too little at every place. The
// kernel waits for memory, so that this costs nothing.
#pragma once

#include "kernels/cpu/storage.h"
#include "kernels/recurrence_params.h"

namespace hydramix::kernels {

// The channels of a task.
constexpr int64_t kComplexChannels = 128;
constexpr int64_t complex_tasks(int64_t C) { return (C + kComplexChannels - 1) / kComplexChannels; }

// Tokens [begin, end) of sequence number `sequence`.
struct ComplexScanRange {
  int64_t sequence, begin, end;
};

template <typename S>
void complex_scan_forward(const ComplexScanForward<S>& p, const ComplexScanRange& range,
                          int64_t task);
template <typename S>
void complex_scan_backward(const ComplexScanBackward<S>& p, const ComplexScanRange& range,
                           int64_t task);

}  // namespace hydramix::kernels
