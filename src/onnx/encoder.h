// SPDX-License-Identifier: Apache-2.0
// The encoder of hydramix/bert_encoder.h as nodes of a graph.
#pragma once

#include "hydramix/bert_encoder.h"
#include "onnx/block.h"

namespace hydramix::onnx {

// Throws UsageError, naming `origin`, unless the encoder can be exported.
void check_exportable(const BertOptions& options, const std::string& origin);

// (batch_size, sequence_length) int64 each; without segment types type_ids has no graph.
struct TokenInputs {
  Value ids, mask, type_ids;
};

struct Encoded {
  Value hidden;      // (B, L', d_model), L' >= L
  Value mask;        // (B, L', 1) float
  Value length;      // (1) int64: L
  Value word_table;  // (vocab, d_model)
};

Encoded encode(const TokenInputs& inputs, const BertOptions& options, const Weights& weights);

}  // namespace hydramix::onnx
