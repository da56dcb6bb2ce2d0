// SPDX-License-Identifier: Apache-2.0
// Encoded texts as packed sequences, the input of encode().
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "hydramix/layout.h"
#include "ops/host_copy.h"

namespace hydramix {

struct PackedBatch {
  torch::Tensor ids, type_ids;  // (1, n); type_ids is undefined where all are zero
  Layout layout;                // packed
  int64_t tokens;
};

class PackedIds {
 public:
  void add(std::span<const int32_t> ids, std::span<const int32_t> type_ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    type_ids_.insert(type_ids_.end(), type_ids.begin(), type_ids.end());
    offsets_.push_back(static_cast<int64_t>(ids_.size()));
  }

  // Checked by the model's check_ids(), then copied to the device.
  template <class Model>
  PackedBatch batch(const Model& model, torch::Device device) const {
    const bool typed = std::any_of(type_ids_.begin(), type_ids_.end(), [](int64_t t) { return t; });
    const auto ids = row(ids_), type_ids = typed ? row(type_ids_) : torch::Tensor();
    model.check_ids(ids, type_ids);
    const auto on_device = [&](const std::vector<int64_t>& values) {
      return upload(values, device).unsqueeze(0);
    };
    return {on_device(ids_), typed ? on_device(type_ids_) : torch::Tensor(),
            Layout::packed(torch::tensor(offsets_, torch::kInt64)),
            static_cast<int64_t>(ids_.size())};
  }

 private:
  static torch::Tensor row(const std::vector<int64_t>& values) {
    return torch::tensor(values, torch::kInt64).unsqueeze(0);
  }

  std::vector<int64_t> ids_, type_ids_, offsets_{0};
};

}  // namespace hydramix
