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
    torch::Tensor ids, types;  // (1, tokens); types is undefined where there is only one
    torch::Tensor hidden;
    std::optional<Sequences> sequences;  // refilled by every request
    std::shared_ptr<Graph> graph;
  };

  BertEncoder encoder;
  int64_t most_tokens;
  torch::Device device;
  std::map<int64_t, Size> sizes;

  const BertOptions& options() const { return encoder->options(); }

  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& types,
                       const Sequences& sequences) const {
    const torch::NoGradGuard no_grad;
    return encoder->encode(ids, types, Layout::packed(sequences));
  }

  // Appends short sequences up to `tokens` tokens; their outputs are not read.
  std::vector<int64_t> filled(std::vector<int64_t> offsets, int64_t tokens) const {
    const int64_t positions = options().positions;
    const int64_t longest = positions > 0 ? std::min(positions, kSmallest) : kSmallest;
    while (offsets.back() < tokens) offsets.push_back(std::min(offsets.back() + longest, tokens));
    return offsets;
  }

  // Captures the graph at the first request with this number of tokens.
  Size& size_of(int64_t tokens) {
    int64_t rounded = kSmallest;
    while (rounded < tokens) rounded *= 2;
    auto& size = sizes[rounded];
    if (!size.graph) capture(size, rounded);
    return size;
  }

  void capture(Size& size, int64_t rounded) const {
    size.ids = torch::zeros({1, rounded}, torch::TensorOptions(torch::kInt64).device(device));
    if (options().type_vocab > 1) size.types = torch::zeros_like(size.ids);
    size.sequences = refillable_sequences(filled({0}, rounded), device);
    const auto run = [&] { size.hidden = encode(size.ids, size.types, *size.sequences); };
    run();
    size.graph = std::make_shared<Graph>(run);
  }
};

bool GraphedEncoder::accepts(const BertOptions& options) {
  const auto& block = options.block;
  const auto mixer = mixer_info(block.mixer, block.mixer_options);
  return mixer.packed && mixer.extendable && block.side_mixer == "none" &&
         !block.mixer_options.learn_initial_states;
}

GraphedEncoder::GraphedEncoder(BertEncoder encoder, int64_t most_tokens) {
  const auto& weights = encoder->word_table();
  HYDRAMIX_CHECK_USAGE(can_capture(weights.device()), "graphed encoder: the model is on ",
                       weights.device(),
                       "; expected a GPU, and a library built with GPU kernels. Move the model to "
                       "a GPU with model->to(torch::kCUDA).");
  HYDRAMIX_CHECK_USAGE(weights.scalar_type() == torch::kFloat32,
                       "graphed encoder: the weights must be float32, which are rounded for "
                       "products; got ",
                       weights.dtype(), ".");
  HYDRAMIX_CHECK_USAGE(accepts(encoder->options()), "graphed encoder: mixer '",
                       encoder->options().block.mixer,
                       "' has no kernels that take sequences of any lengths (hydra has), so its "
                       "work depends on them. Use encode() of the model.");
  HYDRAMIX_CHECK_USAGE(!encoder->is_training(),
                       "graphed encoder: the model is in training mode. Call model->eval() first.");
  encoder->set_precision(torch::kBFloat16);
  const auto device = weights.device();
  state_.reset(new State{std::move(encoder), most_tokens, device, {}});
}

GraphedEncoder::~GraphedEncoder() = default;

void GraphedEncoder::capture_all() {
  const OwnStream stream(state_->device);
  for (int64_t tokens = kSmallest; tokens <= state_->most_tokens; tokens *= 2)
    state_->size_of(tokens);
}

torch::Tensor GraphedEncoder::encode(const std::vector<std::vector<int64_t>>& sequences) {
  std::vector<int64_t> all, offsets{0};
  const int64_t positions = state_->options().positions;
  for (const auto& sequence : sequences) {
    HYDRAMIX_CHECK(positions == 0 || static_cast<int64_t>(sequence.size()) <= positions,
                   "graphed encoder: a sequence of length ", sequence.size(),
                   " is longer than positions = ", positions,
                   ". Cut it, or train a model with more positions.");
    if (sequence.empty()) continue;
    all.insert(all.end(), sequence.begin(), sequence.end());
    offsets.push_back(static_cast<int64_t>(all.size()));
  }
  const auto ids = torch::tensor(all, torch::kInt64).unsqueeze(0);
  state_->encoder->check_ids(ids, {});
  return encode(ids, {}, Sequences(std::move(offsets))).squeeze(0);
}

torch::Tensor GraphedEncoder::encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                                     const Sequences& sequences) {
  const int64_t n = ids.size(1);
  if (n == 0)
    return torch::empty({1, 0, state_->options().block.d_model},
                        torch::TensorOptions(torch::kFloat32).device(state_->device));
  if (n > state_->most_tokens)
    return state_->encode(ids.to(state_->device),
                          type_ids.defined() ? type_ids.to(state_->device) : type_ids, sequences);
  const OwnStream stream(state_->device);
  auto& size = state_->size_of(n);
  refill(*size.sequences, state_->filled(sequences.offsets(), size.ids.size(1)));
  const auto fill = [&](torch::Tensor& buffer, const torch::Tensor& values) {
    buffer.zero_();
    if (values.defined()) buffer.narrow(1, 0, n).copy_(values);
  };
  fill(size.ids, ids);
  if (size.types.defined()) fill(size.types, type_ids);
  size.graph->replay();
  return size.hidden.narrow(1, 0, n);
}

}  // namespace hydramix
