// SPDX-License-Identifier: Apache-2.0
#include "python/tape.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

// The memory of a tensor that owns a tape.
struct HeldTape {
  std::unique_ptr<const Tape> tape;
  int64_t value = 0;  // of the tensor; nothing reads it
};

// Its address also marks such a tensor.
void free_held_tape(void* held) { delete static_cast<HeldTape*>(held); }

}  // namespace

torch::Tensor hold_tape(std::unique_ptr<const Tape> tape) {
  auto* held = new HeldTape{std::move(tape)};
  return at::for_blob(&held->value, {})
      .context(held, free_held_tape)
      .options(torch::kInt64)
      .make_tensor();
}

const Tape& held_tape(const torch::Tensor& holder) {
  const auto* held = holder.has_storage()
                         ? holder.storage().data_ptr().cast_context<HeldTape>(free_held_tape)
                         : nullptr;
  HYDRAMIX_CHECK(held != nullptr,
                 "run_backward: expected the tape that run_forward returned; this is another "
                 "tensor, or a copy, which has no tape. Hooks that move saved tensors elsewhere "
                 "cannot be used with hydramix; use torch.utils.checkpoint to save memory.");
  return *held->tape;
}

}  // namespace hydramix
