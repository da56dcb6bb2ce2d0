// SPDX-License-Identifier: Apache-2.0
// How long work on a GPU takes, and how much of its memory.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix::on_cuda {

// Median time of f in milliseconds, by events on the device, after `warm` untimed calls.
double median_ms(const std::function<void()>& f, int warm, int times);

// Median time of each part of f in milliseconds, in their order. f calls mark(name) when it has
// launched a part: its time is that between its mark and the one before.
std::vector<std::pair<std::string, double>> median_parts_ms(
    const std::function<void(const std::function<void(const char*)>& mark)>& f, int warm,
    int times);

// The most bytes that tensors held at once since the last reset; it also gives back what is not in
// use.
void reset_peak_memory();
double peak_memory_bytes();

}  // namespace hydramix::on_cuda
