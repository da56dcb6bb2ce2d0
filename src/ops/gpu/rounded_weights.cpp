// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/rounded_weights.h"

#include <mutex>
#include <unordered_map>

#include "ops/gpu/last_write.h"

namespace hydramix::gpu {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Entry {
  Weak weight;  // the address may be another tensor's by now
  int64_t version;
  const void* data;
  torch::Tensor copy;
  LastWrite write;  // of the copy
};

std::mutex mutex;
// Never destroyed: when the process ends, the driver may have gone before.
auto& entries = *new std::unordered_map<const c10::TensorImpl*, Entry>;

// With the mutex held.
void keep(const torch::Tensor& weight, const torch::Tensor& copy) {
  const auto* key = weight.unsafeGetTensorImpl();
  if (!entries.contains(key))  // new weights, of a new model as a rule: the old one's may be dead
    std::erase_if(entries, [](const auto& entry) { return entry.second.weight.expired(); });
  entries.insert_or_assign(key, Entry{Weak(weight.getIntrusivePtr()), weight._version(),
                                      weight.data_ptr(), copy, LastWrite(weight.device())});
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
    found->second.write.join();
    // Rounded anew where it was: a recorded step reads it there. Not counted as a write, since all
    // copies may be parts of one tensor, and those rounded before are waiting for backward passes.
    if (found->second.version != weight._version()) {
      found->second.copy.variable_data().copy_(value);
      found->second.version = weight._version();
      found->second.write.record();
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
