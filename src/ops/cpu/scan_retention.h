// SPDX-License-Identifier: Apache-2.0
// Scans with a fixed decay and own keys for every head, by kernels/cpu/scan_retention.h.
#pragma once

#include "ops/scan.h"

namespace hydramix::on_cpu {

// Whether the call is one, and its decays need no gradients.
bool is_retention(const ScanCall& call);

// scan_forward() and scan_backward() of such a call. Returns the states, undefined where none are
// kept.
torch::Tensor retention_forward(const ScanCall& call, const torch::Tensor& y);
void retention_backward(const ScanCall& call, const torch::Tensor& states, const torch::Tensor& dy,
                        const ScanGradients& gradients);

}  // namespace hydramix::on_cpu
