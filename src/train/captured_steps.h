// SPDX-License-Identifier: Apache-2.0
// Training steps as CUDA graphs. A step with a recurring shape is captured once, with its own input
// tensors, and then replayed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "hydramix/block.h"
#include "ops/graph.h"

namespace hydramix {

// Whether steps with sequences of one length can be captured on this device.
bool can_be_captured(const BlockOptions& block, torch::Device device);

// Whether a run captures its steps: in bfloat16, on one GPU.
bool captures_steps(const BlockOptions& block, torch::Device device, torch::ScalarType precision,
                    const Communicator& communicator);

class CapturedSteps {
 public:
  // At most `most` graphs are kept; each holds the activations of all layers. `message` is called
  // if a capture fails. Nothing is captured where `enabled` is false.
  CapturedSteps(bool enabled, std::size_t most, std::function<void(const std::string&)> message)
      : enabled_(enabled), most_(most), message_(std::move(message)) {}

  struct Step {
    std::vector<int64_t> shape;         // whatever else the step depends on, such as lengths
    std::vector<torch::Tensor> inputs;  // on the device
    // Forward and backward on such inputs; returns results that do not need gradients.
    std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)> run;
    std::function<void()> prepare = {};      // called before a capture
    std::shared_ptr<const void> owner = {};  // of other memory that the work reads, such as tables
  };
  // The results of the step, which are valid until the next one. A shape that occurs twice in a row
  // is likely to recur, and is captured.
  std::vector<torch::Tensor> run(const Step& step);

 private:
  struct Captured {
    std::vector<int64_t> shape;
    std::vector<torch::Tensor> inputs, results;
    std::shared_ptr<const void> owner;
    std::shared_ptr<Graph> graph;
  };

  bool enabled_;  // until a capture fails
  std::size_t most_;
  std::function<void(const std::string&)> message_;
  std::vector<std::shared_ptr<Captured>> captured_;  // most recently used last
  std::vector<int64_t> seen_;                        // shape of the previous step
};

}  // namespace hydramix
