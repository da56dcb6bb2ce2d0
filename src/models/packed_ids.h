// SPDX-License-Identifier: Apache-2.0
// Encoded texts as packed sequences, the input of encode().
#pragma once

#include <span>
#include <vector>

#include "hydramix/layout.h"

namespace hydramix {

class PackedIds {
 public:
  void add(std::span<const int32_t> ids, std::span<const int32_t> type_ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    type_ids_.insert(type_ids_.end(), type_ids.begin(), type_ids.end());
    offsets_.push_back(tokens());
  }

  int64_t tokens() const { return static_cast<int64_t>(ids_.size()); }
  torch::Tensor ids() const { return row(ids_); }            // (1, n)
  torch::Tensor type_ids() const { return row(type_ids_); }  // (1, n)
  Layout layout() const { return Layout::packed(torch::tensor(offsets_, torch::kInt64)); }

 private:
  static torch::Tensor row(const std::vector<int64_t>& values) {
    return torch::tensor(values, torch::kInt64).unsqueeze(0);
  }

  std::vector<int64_t> ids_, type_ids_, offsets_{0};
};

}  // namespace hydramix
