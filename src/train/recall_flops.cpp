// SPDX-License-Identifier: Apache-2.0
#include "train/recall_flops.h"

namespace hydramix {
namespace {

std::optional<double> mixing_flops(const BlockOptions& block, int64_t length) {
  const auto heads = block.heads();
  const auto H = static_cast<double>(heads.H), P = static_cast<double>(heads.P);
  const auto N = static_cast<double>(block.mixer_options.d_state);
  const auto d = static_cast<double>(block.mixer_options.qk_dim);
  const auto L = static_cast<double>(length);
  const double scan = 5 * H * P * N;
  if (block.mixer == "semiseparable") return scan;
  if (block.mixer == "s6") return scan + 2 * H * N;
  if (block.mixer == "hydra") return 2 * scan;
  if (block.mixer == "low_rank_dd") return 4 * H * P * d;
  const double each = H * (2 * d + 2 * P + 3);
  if (block.mixer == "attention") return L * each;
  if (block.mixer == "attention_causal") return (L + 1) / 2 * each;
  return std::nullopt;
}

}  // namespace

std::optional<double> forward_flops_per_token(const BertForMaskedLMImpl& model, int64_t length) {
  const auto& options = model.options();
  const auto mixing = mixing_flops(options.block, length);
  if (!mixing) return std::nullopt;
  double weights = 0;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() >= 2 && item.key().find("encoder.layer") != std::string::npos &&
        item.key().ends_with(".weight"))
      weights += static_cast<double>(item.value().numel());
  return 2 * weights + static_cast<double>(options.layers) * *mixing;
}

}  // namespace hydramix
