// SPDX-License-Identifier: Apache-2.0
#include "ops/sequences.h"

#include "ops/backend.h"

namespace hydramix {
namespace {

bool has_table(const Sequences& sequences, torch::Device device) {
  return device.is_cuda() && has_cuda_kernels() && sequences.tokens() > 0;
}

}  // namespace

Sequences::Sequences(std::vector<int64_t> offsets) : state_(std::make_shared<State>()) {
  state_->offsets = std::move(offsets);
}

Sequences Sequences::uniform(int64_t count, int64_t length) {
  std::vector<int64_t> offsets{0};
  if (length > 0)
    for (int64_t s = 1; s <= count; ++s) offsets.push_back(s * length);
  Sequences sequences(std::move(offsets));
  sequences.state_->length = length;
  return sequences;
}

const std::vector<int64_t>& Sequences::offsets() const { return state_->offsets; }

torch::Tensor Sequences::index_of_tokens(torch::Device device) const {
  if (has_table(*this, device)) return on_cuda::index_of_tokens(*this, device);
  const auto bounds = torch::tensor(offsets(), torch::kInt64);
  const auto lengths = bounds.narrow(0, 1, count()) - bounds.narrow(0, 0, count());
  // The host tensor is not written again, so the copy need not block.
  return torch::repeat_interleave(torch::arange(count()), lengths)
      .to(device, /*non_blocking=*/true);
}

torch::Tensor Sequences::place_of_tokens(torch::Device device) const {
  if (has_table(*this, device)) return on_cuda::place_of_tokens(*this, device);
  const auto first =
      torch::tensor(offsets(), torch::kInt64).index_select(0, index_of_tokens(torch::kCPU));
  return (torch::arange(tokens()) - first).to(device, /*non_blocking=*/true);
}

Sequences refillable_sequences(const std::vector<int64_t>& offsets, torch::Device device) {
  Sequences sequences(offsets);
  on_cuda::make_refillable_table(sequences, device);
  return sequences;
}

void refill(const Sequences& sequences, const std::vector<int64_t>& offsets) {
  on_cuda::refill_table(sequences, offsets);
}

void make_table(const Sequences& sequences, torch::Device device) {
  if (has_table(sequences, device)) on_cuda::make_table(sequences, device);
}

}  // namespace hydramix
