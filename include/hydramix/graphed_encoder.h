// SPDX-License-Identifier: Apache-2.0
// An encoder on a GPU for many small requests of any lengths, in bfloat16. Requests are rounded up
// to a few sizes. Each size is captured once as a CUDA graph and then replayed, so that a short
// request is not bound by the host's launches.
#pragma once

#include <memory>
#include <vector>

#include "hydramix/bert_encoder.h"

namespace hydramix {

class GraphedEncoder {
 public:
  // Whether an encoder with these options can be captured: its mixers need kernels for packed
  // sequences (the scans: hydra, ...).
  static bool accepts(const BertOptions& options);

  // The encoder of a model, on a GPU, in eval() mode, with options that accepts() accepts. Its
  // precision becomes bfloat16. It must not change during the lifetime of this object. Requests of
  // more than `most_tokens` tokens, a power of two times 128, run without a graph.
  explicit GraphedEncoder(BertEncoder encoder, int64_t most_tokens = 16384);
  ~GraphedEncoder();
  GraphedEncoder(const GraphedEncoder&) = delete;
  GraphedEncoder& operator=(const GraphedEncoder&) = delete;

  // Captures the graphs of all sizes now, so that no request waits for one. Else the first request
  // of a size captures its graph.
  void capture_all();

  // Ids of each sequence -> hidden states (tokens, d_model) float32 on the GPU, one sequence after
  // another; valid until the next call. Do not call it from two threads at once, nor while another
  // thread uses the same model.
  torch::Tensor encode(const std::vector<std::vector<int64_t>>& sequences);
  // The same for packed sequences, none of them empty: ids, type_ids (1, n) int64 -> (1, n,
  // d_model). Undefined type_ids are all zero. The ids must be checked (check_ids() of the model).
  torch::Tensor encode(const torch::Tensor& ids, const torch::Tensor& type_ids,
                       const Sequences& sequences);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydramix
