// SPDX-License-Identifier: Apache-2.0
// A text model as an ONNX graph of opset 17, for any batch and any length:
//
//   input_ids, attention_mask, token_type_ids   (batch_size, sequence_length) int64
//   logits               (batch_size, sequence_length, vocab)    of a masked-language model
//                        (batch_size, outputs)                   of a classifier
//                        (batch_size, sequence_length, outputs)  of a tagger
//   sentence_embedding   (batch_size, d_model)                   as TextEmbedder computes it
//
// Names and types are those of Hugging Face's models. Without segment types there are no
// token_type_ids. The mask is 1 at tokens and 0 at padding, before or after the tokens. The result
// of a sequence does not depend on padding or on the rest of the batch; at padding it means
// nothing.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "models/text_model.h"

namespace hydramix::onnx {

struct ExportOptions {
  std::string head = "auto";     // "logits", "embedding"; auto: logits where the model has a head
  std::string pooling = "auto";  // of embeddings: "mean", "cls"; auto: as TextEmbedder
  bool normalize = false;        // embeddings to length 1
};

struct Exported {
  int64_t bytes;       // of the file
  std::string output;  // "logits" or "sentence_embedding"
};

// Writes the file atomically. `metadata` is added to that of the model: its labels, their kind and
// thresholds, pooling, the longest text, the mixer and the tokenizer's fingerprint. Throws
// UsageError, naming `origin`, for a model or a head that cannot be exported.
Exported export_model(const std::filesystem::path& out, const TextModel& model,
                      const ExportOptions& options, const std::string& origin,
                      std::map<std::string, std::string> metadata = {});

}  // namespace hydramix::onnx
