// SPDX-License-Identifier: Apache-2.0
#include "hydramix/finite_check.h"

#include "hydramix/error.h"

namespace hydramix {

void check_weights_finite(const std::string& who, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    HYDRAMIX_CHECK(
        torch::isfinite(item.value()).all().item<bool>(), who, ": weight '", item.key(),
        "' holds a NaN or an infinity. Load it again from a sound checkpoint; if it came "
        "from training, lower the learning rate.");
}

void FiniteCheck::operator()(const std::string& who, const torch::nn::Module& module) const {
  uint64_t writes = 1;
  for (const auto& weight : module.parameters()) {
    // Tensors made in inference mode have no version counter.
    if (!weight.device().is_cpu() || weight.is_inference()) return;
    writes += 1 + static_cast<uint64_t>(weight._version());
  }
  if (writes_seen_.load(std::memory_order_relaxed) == writes) return;
  check_weights_finite(who, module);
  writes_seen_.store(writes, std::memory_order_relaxed);
}

}  // namespace hydramix
