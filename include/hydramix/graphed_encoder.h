// SPDX-License-Identifier: Apache-2.0
// An encoder on a GPU for many small requests of any lengths, in bfloat16. Requests are rounded up
// to a few sizes. The model's work for a size is captured once, as a CUDA graph, and then launched
// as a whole: a short request costs the time of the GPU and not that of the host's launches.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/bert.h"

namespace hydramix {

class GraphedEncoder {
 public:
  // The model is on a GPU, in eval() mode, and its mixers have kernels for packed sequences (the
  // scans: hydra, ...). Its precision becomes bfloat16. It must not change while this lives.
  // Requests of more than `most_tokens` tokens, a power of two times 128, are encoded without a
  // graph.
  explicit GraphedEncoder(BertForMaskedLM model, int64_t most_tokens = 16384);
  ~GraphedEncoder();
  GraphedEncoder(const GraphedEncoder&) = delete;
  GraphedEncoder& operator=(const GraphedEncoder&) = delete;

  // Ids of each sequence -> hidden states (tokens, d_model) float32 on the GPU, sequence after
  // sequence; valid until the next call. Not to be called by two threads at once, nor while another
  // thread uses the same model: a size that comes for the first time is captured.
  torch::Tensor encode(const std::vector<std::vector<int64_t>>& sequences);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydramix
