// SPDX-License-Identifier: Apache-2.0
#include "hydramix/weights.h"

#include <vector>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/block.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

const std::string kMixerScope = "matrix_mixer.";

// Some published modules (Hydra, Mamba-2) store the mixer's weights directly in the block.
std::string published_name(const std::string& name, const std::vector<std::string>& flat_blocks) {
  for (const auto& block : flat_blocks)
    if (name.starts_with(block + kMixerScope))
      return block + name.substr(block.size() + kMixerScope.size());
  return name;
}

std::vector<std::string> flat_block_prefixes(const torch::nn::Module& model) {
  std::vector<std::string> prefixes;
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (const auto* block = dynamic_cast<const BlockImpl*>(item.value().get()))
      if (block->mixer().info().flat_weights) prefixes.push_back(item.key() + ".");
  if (const auto* block = dynamic_cast<const BlockImpl*>(&model))
    if (block->mixer().info().flat_weights) prefixes.push_back("");
  return prefixes;
}

std::vector<std::string> names_of(const std::map<std::string, torch::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

}  // namespace

std::map<std::string, torch::Tensor> named_weights(const torch::nn::Module& model) {
  const auto flat = flat_block_prefixes(model);
  std::map<std::string, torch::Tensor> weights;
  for (const auto& item : model.named_parameters())
    weights.emplace(published_name(item.key(), flat), item.value());
  return weights;
}

bool decays(const std::string& name, const torch::Tensor& parameter) {
  // Poles of state-space models, and the vectors that belong to them in S4.
  for (const char* end : {"log_A_real", "A_imag", "kernel.B", "kernel.P"})
    if (name.ends_with(end)) return false;
  // A_log, dt_bias, D, norms and biases are numbers per head or channel. A bias with more
  // dimensions is vandermonde_di's table of angles, which should not decay either.
  // s6 has an A_log per state, transnormer an angle theta per channel.
  return parameter.dim() >= 2 && !name.ends_with("bias") && !name.ends_with("init_states") &&
         !name.ends_with("A_log") && !name.ends_with(".theta") &&
         name.find("position_embeddings") == std::string::npos &&
         name.find("token_type_embeddings") == std::string::npos && !name.ends_with("cls_token");
}

torch::Tensor from_reference_toeplitz_weights(const torch::Tensor& theirs) {
  return theirs.roll(-1, -1);
}

torch::Tensor to_reference_toeplitz_weights(const torch::Tensor& ours) { return ours.roll(1, -1); }

bool is_rotated(const std::string& name, const LoadOptions& options) {
  return options.reference_toeplitz && name.ends_with(kMixerScope + "conv_params");
}

void load_weights(torch::nn::Module& model, const std::map<std::string, torch::Tensor>& weights,
                  const LoadOptions& options) {
  auto own = named_weights(model);
  std::vector<std::string> faults;
  for (const auto& [name, target] : own) {
    const auto found = weights.find(name);
    if (found == weights.end())
      faults.push_back("missing '" + name + "'");
    else if (found->second.sizes() != target.sizes())
      faults.push_back(
          concat("'", name, "' has shape ", found->second.sizes(), ", expected ", target.sizes()));
    else if (!found->second.is_floating_point())
      faults.push_back(
          concat("'", name, "' has dtype ", found->second.dtype(), ", expected floating point"));
    else if (!torch::isfinite(found->second.to(target.scalar_type())).all().item<bool>())
      faults.push_back("'" + name + "' holds a NaN or an infinity");
  }
  for (const auto& [name, tensor] : weights)
    if (own.count(name) == 0)
      faults.push_back("unexpected " + in_quotes(name) + did_you_mean(name, names_of(own)));
  constexpr std::size_t kShown = 8;
  if (const std::size_t count = faults.size(); count > kShown) {
    faults.resize(kShown);
    faults.push_back(concat("and ", count - kShown, " more"));
  }
  HYDRAMIX_CHECK(faults.empty(), "weights do not fit the model: ", join(faults, "; "),
                 ". Were they saved from a model with the same options?");

  torch::NoGradGuard no_grad;
  for (auto& [name, target] : own) {
    const auto& source = weights.at(name);
    target.copy_(is_rotated(name, options) ? from_reference_toeplitz_weights(source) : source);
  }
}

}  // namespace hydramix
