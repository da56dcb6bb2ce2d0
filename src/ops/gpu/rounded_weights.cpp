// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/rounded_weights.h"

#include <atomic>
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

std::atomic<bool> used = false;
std::mutex mutex;
std::unordered_map<const c10::TensorImpl*, Entry> entries;
std::size_t cleaned_at = 256;  // entries at which those of dead weights are looked for

int64_t version_of(const torch::Tensor& weight) {
  // Tensors made in inference mode cannot be written and count nothing.
  return weight.is_inference() ? 0 : weight._version();
}

void keep(const torch::Tensor& weight, const torch::Tensor& copy) {
  const std::lock_guard lock(mutex);
  if (entries.size() >= cleaned_at) {
    for (auto it = entries.begin(); it != entries.end();)
      it = it->second.weight.expired() ? entries.erase(it) : std::next(it);
    cleaned_at = std::max<std::size_t>(256, 2 * entries.size());
  }
  entries.insert_or_assign(
      weight.unsafeGetTensorImpl(),
      Entry{Weak(weight.getIntrusivePtr()), version_of(weight), weight.data_ptr(), copy});
}

}  // namespace

torch::Tensor rounded(const torch::Tensor& weight) {
  if (weight.scalar_type() == torch::kBFloat16) return weight.contiguous();
  {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(weight.unsafeGetTensorImpl());
    if (found != entries.end() && !found->second.weight.expired() &&
        found->second.version == version_of(weight) && found->second.data == weight.data_ptr())
      return found->second.copy;
  }
  used = true;
  torch::NoGradGuard no_grad;
  const auto copy = weight.detach().to(torch::kBFloat16).contiguous();
  if (weight.is_leaf()) keep(weight, copy);
  return copy;
}

bool rounding_is_used() { return used; }

void set_rounded(const torch::Tensor& weight, const torch::Tensor& copy) { keep(weight, copy); }

}  // namespace hydramix::gpu
