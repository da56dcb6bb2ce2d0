// SPDX-License-Identifier: Apache-2.0
// The modules that Python calls, made from a spec in JSON:
//
//   {"kind": "block", "block": BlockOptions}
//   {"kind": "encoder" or "masked_lm", "model": BertOptions}
//   {"kind": "classifier", "model": BertOptions, "classifier": ClassifierOptions}
//
// Python owns the weights and passes them with every call (module_pool.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

// One call. Undefined tensors are not given.
struct ModuleCall {
  // "forward"; of a block also "materialize", of a masked-language model also "loss".
  std::string method;
  torch::Tensor input;       // u (B, L, d_model), or ids (B, L)
  torch::Tensor types;       // (B, L): segment of each id
  torch::Tensor mask;        // (B, L): true where a token is
  torch::Tensor cu_seqlens;  // offsets of packed sequences; then B = 1
  torch::Tensor labels;      // (B, L): ids at masked positions, kNoLabel elsewhere
  torch::Tensor seed;        // () int64: dropout is on, with this seed
  bool bfloat16 = false;     // products of a model on a GPU are bfloat16
};

inline constexpr int64_t kNoLabel = -100;  // PyTorch's default ignore_index

class CalledModule {
 public:
  virtual ~CalledModule() = default;
  virtual torch::nn::Module& module() = 0;
  virtual torch::Tensor call(const ModuleCall& call) = 0;
  // Whether calls with an input alone launch the same work every time.
  virtual bool can_be_captured(torch::Device) const { return false; }
};

// Throws UsageError for a spec that describes no module.
std::unique_ptr<CalledModule> make_called_module(const std::string& spec);

// All options of a kind with their default values: the spec without the key "kind".
std::string default_spec(const std::string& kind);

}  // namespace hydramix
