// SPDX-License-Identifier: Apache-2.0
#include "ops/sequence_means.h"

namespace hydramix {

torch::Tensor sequence_means(const torch::Tensor& hidden, const Layout& layout) {
  const auto sequences = layout.sequences(hidden.size(0), hidden.size(1));
  const auto& offsets = sequences.offsets();
  if (hidden.is_cpu()) {
    // Sequence by sequence: the order of a sum over padded rows depends on the longest of them.
    const auto tokens = layout.to_tokens(hidden).flatten(0, 1);
    std::vector<torch::Tensor> rows;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      rows.push_back(tokens.narrow(0, offsets[s], offsets[s + 1] - offsets[s])
                         .mean(0, false, torch::kFloat64));
    return torch::stack(rows).to(hidden.scalar_type());
  }
  // Sums over padded rows: two kernels, not one per sequence. Atomic additions would not be
  // deterministic, and differences of prefix sums would be inexact.
  const int64_t count = sequences.count();
  const auto lengths = torch::tensor(offsets, torch::kInt64).diff().to(hidden.options());
  return layout.to_rows(hidden).narrow(0, 0, count).sum(1) / lengths.unsqueeze(1);
}

}  // namespace hydramix
