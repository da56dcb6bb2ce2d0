// SPDX-License-Identifier: Apache-2.0
// Time and memory of work on a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix::on_cuda {

// Median time of f in milliseconds, measured by CUDA events after `warm` untimed calls.
double median_ms(const std::function<void()>& f, int warm, int times);

// Median time of each part of f in milliseconds, in order. f calls mark(name) after launching a
// part. The time of a part is the time between its mark and the previous one.
std::vector<std::pair<std::string, double>> median_parts_ms(
    const std::function<void(const std::function<void(const char*)>& mark)>& f, int warm,
    int times);

// A point in the work of the current stream.
std::shared_ptr<void> record_event();
void wait_for_event(const std::shared_ptr<void>& event);
bool has_passed(const std::shared_ptr<void>& event);
// Between two that have passed.
double ms_between(const std::shared_ptr<void>& from, const std::shared_ptr<void>& to);

// Peak bytes held by tensors since the last reset. The reset also releases the allocator's unused
// memory.
void reset_peak_memory();
double peak_memory_bytes();

}  // namespace hydramix::on_cuda
