// SPDX-License-Identifier: Apache-2.0
#include "train/captured_steps.h"

#include <algorithm>

namespace hydramix {
namespace {

bool have_same_sizes(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.sizes() == y.sizes(); });
}

}  // namespace

bool can_be_captured(const BlockOptions& block, torch::Device device) {
  return can_capture(device) && mixer_info(block.mixer, block.mixer_options).capturable &&
         block.side_mixer == "none" && !block.mixer_options.learn_initial_states;
}

bool captures_steps(const BlockOptions& block, torch::Device device, torch::ScalarType precision,
                    const Communicator& communicator) {
  return precision == torch::kBFloat16 && communicator.alone() && can_be_captured(block, device);
}

std::vector<torch::Tensor> CapturedSteps::run(const Step& step) {
  if (!enabled_) return step.run(step.inputs);
  const auto found = std::find_if(captured_.begin(), captured_.end(), [&](const auto& captured) {
    return captured->shape == step.shape && have_same_sizes(captured->inputs, step.inputs);
  });
  if (found != captured_.end()) {
    std::rotate(found, found + 1, captured_.end());
    auto& captured = *captured_.back();
    for (std::size_t i = 0; i < step.inputs.size(); ++i) captured.inputs[i].copy_(step.inputs[i]);
    captured.graph->replay();
    return captured.results;
  }
  if (seen_ != step.shape) {
    seen_ = step.shape;
    return step.run(step.inputs);
  }
  if (captured_.size() == most_) captured_.erase(captured_.begin());
  auto captured = std::make_shared<Captured>();
  captured->shape = step.shape;
  captured->inputs = step.inputs;
  captured->owner = step.owner;
  if (step.prepare) step.prepare();
  try {
    captured->graph =
        std::make_shared<Graph>([&] { captured->results = step.run(captured->inputs); });
  } catch (const std::exception& error) {
    // Usually out of memory. Training continues without captures, with the same results.
    captured_.clear();
    enabled_ = false;
    const std::string reason = error.what();
    if (message_)
      message_("a step could not be captured, and none will be: " +
               reason.substr(0, reason.find('\n')));
    return step.run(step.inputs);
  }
  captured_.push_back(captured);
  captured->graph->replay();
  return captured->results;
}

}  // namespace hydramix
