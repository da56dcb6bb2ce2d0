// SPDX-License-Identifier: Apache-2.0
#include "hydramix/graphed_encoder.h"

#include <algorithm>
#include <map>

#include "hydramix/error.h"
#include "ops/graph.h"
#include "ops/sequences.h"

namespace hydramix {
namespace {

constexpr int64_t kSmallest = 128;

}  // namespace

struct GraphedEncoder::State {
  // A captured graph for one number of tokens.
  struct Size {
    torch::Tensor ids;  // (1, tokens)
    torch::Tensor hidden;
    std::optional<Sequences> sequences;  // refilled by every request
    std::shared_ptr<Graph> graph;
  };

  BertForMaskedLM model;
  int64_t most_tokens;
  torch::Device device;
  std::map<int64_t, Size> sizes;

  torch::Tensor encode(const torch::Tensor& ids, const Sequences& sequences) const {
    const torch::NoGradGuard no_grad;
    return model->encode(ids, {}, Layout::packed(sequences)).squeeze(0);
  }

  // Appends short sequences up to `tokens` tokens; their outputs are not read.
  std::vector<int64_t> filled(std::vector<int64_t> offsets, int64_t tokens) const {
    const int64_t positions = model->options().positions;
    const int64_t longest = positions > 0 ? std::min(positions, kSmallest) : kSmallest;
    while (offsets.back() < tokens) offsets.push_back(std::min(offsets.back() + longest, tokens));
    return offsets;
  }

  // Captures the graph at the first request with this number of tokens.
  Size& size_of(int64_t tokens, const std::vector<int64_t>& offsets) {
    int64_t rounded = kSmallest;
    while (rounded < tokens) rounded *= 2;
    auto& size = sizes[rounded];
    if (!size.graph) capture(size, rounded, offsets);
    return size;
  }

  void capture(Size& size, int64_t rounded, const std::vector<int64_t>& offsets) const {
    size.ids = torch::zeros({1, rounded}, torch::TensorOptions(torch::kInt64).device(device));
    size.sequences = refillable_sequences(filled(offsets, rounded), device);
    const auto run = [&] { size.hidden = encode(size.ids, *size.sequences); };
    run();
    size.graph = std::make_shared<Graph>(run);
  }
};

GraphedEncoder::GraphedEncoder(BertForMaskedLM model, int64_t most_tokens) {
  const auto parameters = model->parameters();
  const auto device = parameters.at(0).device();
  HYDRAMIX_CHECK_USAGE(can_capture(device), "graphed encoder: the model is on ", device,
                       "; expected a GPU, and a library built with GPU kernels. Move the model to "
                       "a GPU with model->to(torch::kCUDA).");
  const auto& options = model->options().block;
  HYDRAMIX_CHECK_USAGE(parameters.at(0).scalar_type() == torch::kFloat32,
                       "graphed encoder: the weights must be float32, which are rounded for "
                       "products; got ",
                       parameters.at(0).dtype(), ".");
  const auto mixer = mixer_info(options.mixer, options.mixer_options);
  HYDRAMIX_CHECK_USAGE(mixer.packed && mixer.extendable && options.side_mixer == "none" &&
                           !options.mixer_options.learn_initial_states,
                       "graphed encoder: mixer '", options.mixer,
                       "' has no kernels that take sequences of any lengths (hydra has), so its "
                       "work depends on them. Use encode() of the model.");
  HYDRAMIX_CHECK_USAGE(!model->is_training(),
                       "graphed encoder: the model is in training mode. Call model->eval() first.");
  model->set_precision(torch::kBFloat16);
  state_.reset(new State{std::move(model), most_tokens, device, {}});
}

GraphedEncoder::~GraphedEncoder() = default;

torch::Tensor GraphedEncoder::encode(const std::vector<std::vector<int64_t>>& sequences) {
  std::vector<int64_t> all, offsets{0};
  const int64_t positions = state_->model->options().positions;
  for (const auto& sequence : sequences) {
    HYDRAMIX_CHECK(positions == 0 || static_cast<int64_t>(sequence.size()) <= positions,
                   "graphed encoder: a sequence of length ", sequence.size(),
                   " has places beyond positions = ", positions,
                   ". Cut it, or train a model with more positions.");
    if (sequence.empty()) continue;
    all.insert(all.end(), sequence.begin(), sequence.end());
    offsets.push_back(static_cast<int64_t>(all.size()));
  }
  const auto n = static_cast<int64_t>(all.size());
  const auto ids = torch::tensor(all, torch::kInt64).unsqueeze(0);
  state_->model->check_ids(ids, {});
  if (n == 0)
    return torch::empty({0, state_->model->options().block.d_model},
                        torch::TensorOptions(torch::kFloat32).device(state_->device));
  if (n > state_->most_tokens) return state_->encode(ids.to(state_->device), offsets);
  const OwnStream stream(state_->device);
  auto& size = state_->size_of(n, offsets);
  refill(*size.sequences, state_->filled(offsets, size.ids.size(1)));
  size.ids.zero_();
  size.ids.narrow(1, 0, n).copy_(ids);
  size.graph->replay();
  return size.hidden.narrow(0, 0, n);
}

}  // namespace hydramix
