// SPDX-License-Identifier: Apache-2.0
// How long work on a GPU takes, and how much of its memory.
#pragma once

#include <functional>

#include "ops/gpu/gpu.h"

namespace hydramix::gpu {

// Median time of f in milliseconds, by events on the device, after `warm` untimed calls.
double median_ms(const std::function<void()>& f, int warm, int times);

// The most bytes that tensors held at once since the last reset; it also gives back what is not in
// use.
void reset_peak_memory();
double peak_memory_bytes();

}  // namespace hydramix::gpu
