// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/rounded_weights.h"

#include <mutex>
#include <unordered_map>

namespace hydramix::gpu {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Entry {
  Weak weight;  // the address may be another tensor's by now
  int64_t version;
  const void* data;
  torch::Tensor copy;
};

std::mutex mutex;
std::unordered_map<const c10::TensorImpl*, Entry> entries;
std::size_t cleaned_at = 256;  // entries at which those of dead weights are looked for

// With the mutex held.
void keep(const torch::Tensor& weight, const torch::Tensor& copy) {
  if (entries.size() >= cleaned_at) {
    for (auto it = entries.begin(); it != entries.end();)
      it = it->second.weight.expired() ? entries.erase(it) : std::next(it);
    cleaned_at = std::max<std::size_t>(256, 2 * entries.size());
  }
  entries.insert_or_assign(
      weight.unsafeGetTensorImpl(),
      Entry{Weak(weight.getIntrusivePtr()), weight._version(), weight.data_ptr(), copy});
}

}  // namespace

torch::Tensor rounded(const torch::Tensor& weight) {
  if (weight.scalar_type() == torch::kBFloat16) return weight.contiguous();
  // A copy may be needed by a backward pass later, whatever mode this is.
  const c10::InferenceMode no_inference(false);
  const torch::NoGradGuard no_grad;
  const auto value = weight.detach();
  // Tensors made in inference mode count no writes, and others are not weights.
  if (weight.is_inference() || !weight.is_leaf()) return value.to(torch::kBFloat16).contiguous();
  const std::lock_guard lock(mutex);
  const auto found = entries.find(weight.unsafeGetTensorImpl());
  if (found != entries.end() && !found->second.weight.expired() &&
      found->second.data == weight.data_ptr()) {
    // Rounded anew where it was: a recorded step reads it there. Not counted as a write, since all
    // copies may be parts of one tensor, and those rounded before are waiting for backward passes.
    if (found->second.version != weight._version()) {
      found->second.copy.variable_data().copy_(value);
      found->second.version = weight._version();
    }
    return found->second.copy;
  }
  const auto copy = value.to(torch::kBFloat16).contiguous();
  keep(weight, copy);
  return copy;
}

void set_rounded(const torch::Tensor& weight, const torch::Tensor& copy) {
  const std::lock_guard lock(mutex);
  keep(weight, copy);
}

}  // namespace hydramix::gpu
