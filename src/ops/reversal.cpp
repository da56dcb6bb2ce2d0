// SPDX-License-Identifier: Apache-2.0
#include "ops/reversal.h"

#include "ops/semiseparable.h"
#include "ops/sequences.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// t[index] for an index (n) that is its own inverse, so that the gradient is the same selection.
// LibTorch's gradient of index_select would add row by row.
class Involution : public torch::autograd::Function<Involution> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& t, const Tensor& index) {
    ctx->save_for_backward({index});
    return t.index_select(0, index);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    return {apply(outputs[0], ctx->get_saved_variables()[0]), {}};
  }
};

// The sequences of t (n, ...) as rows (S, L, ...), if all have the same length.
bool are_rows(const Sequences& sequences) { return sequences.state().length > 0; }
Tensor rows_of_sequences(const Tensor& t, const Sequences& sequences) {
  return t.unflatten(0, std::vector<int64_t>{sequences.count(), sequences.state().length});
}

// (n) int64: the position of each token in the reversed order. Computed where the table of the
// sequences is, so that a CUDA graph follows a refilled table.
Tensor flipped_places(const Sequences& sequences, torch::Device device) {
  const auto sequence = sequences.index_of_tokens(device);
  const auto place = sequences.place_of_tokens(device);
  const auto lengths = torch::zeros_like(place).index_add(0, sequence, torch::ones_like(place));
  return torch::arange(sequences.tokens(), place.options()) - 2 * place - 1 +
         lengths.index_select(0, sequence);
}

}  // namespace

Tensor flip_tokens(const Tensor& t, const Sequences& sequences) {
  if (t.size(0) == 0) return t;
  if (are_rows(sequences)) return flip(rows_of_sequences(t, sequences)).flatten(0, 1);
  return Involution::apply(t, flipped_places(sequences, t.device()));
}

Tensor shift_tokens(const Tensor& t, const Sequences& sequences) {
  if (t.size(0) == 0) return t;
  if (are_rows(sequences)) return shift(rows_of_sequences(t, sequences)).flatten(0, 1);
  std::vector<int64_t> shape(t.dim(), 1);
  shape[0] = t.size(0);
  const auto first = sequences.place_of_tokens(t.device()).eq(0).view(shape);
  return shift(t, 0).masked_fill(first, 0);
}

Tensor flip_rows(const Tensor& t, const Tensor& valid) {
  if (!valid.defined()) return flip(t);
  const int64_t S = t.size(0), L = t.size(1);
  const auto place = torch::arange(L, valid.options().dtype(torch::kInt64));
  const auto in_row = torch::where(valid, valid.sum(1, /*keepdim=*/true) - 1 - place, place);
  const auto row = torch::arange(S, place.options()).unsqueeze(1);
  return Involution::apply(t.flatten(0, 1), (row * L + in_row).flatten())
      .unflatten(0, std::vector<int64_t>{S, L});
}

}  // namespace hydramix
