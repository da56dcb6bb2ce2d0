// SPDX-License-Identifier: Apache-2.0
// An encoder on a GPU for many small requests of any lengths, in bfloat16. Requests are rounded up
// to a few sizes. Each size is captured once as a CUDA graph and then replayed, so that a short
// request is not bound by the host's launches.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/bert.h"

namespace hydramix {

class GraphedEncoder {
 public:
  // The model must be on a GPU, in eval() mode, and have mixers with kernels for packed sequences
  // (the scans: hydra, ...). Its precision becomes bfloat16. It must not change during the lifetime
  // of this object. Requests of more than `most_tokens` tokens, a power of two times 128, run
  // without a graph.
  explicit GraphedEncoder(BertForMaskedLM model, int64_t most_tokens = 16384);
  ~GraphedEncoder();
  GraphedEncoder(const GraphedEncoder&) = delete;
  GraphedEncoder& operator=(const GraphedEncoder&) = delete;

  // Ids of each sequence -> hidden states (tokens, d_model) float32 on the GPU, one sequence after
  // another; valid until the next call. Do not call it from two threads at once, nor while another
  // thread uses the same model: the first request of a size captures a graph.
  torch::Tensor encode(const std::vector<std::vector<int64_t>>& sequences);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydramix
