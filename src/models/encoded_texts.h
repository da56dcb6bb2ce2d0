// SPDX-License-Identifier: Apache-2.0
// Computes a model's results for texts that are already tokens: the common part of TextEmbedder,
// TextClassifier, FillMask and the server. One result per text, in order; a result that is not
// finite is a TextError.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hydramix/fill_mask.h"
#include "models/text_model.h"

namespace hydramix {

// Vectors of d_model; `pooling` as in pooled().
std::vector<std::vector<float>> text_vectors(const TextModel& model,
                                             std::span<const Encoding> texts,
                                             const std::string& pooling);

// Hidden states (tokens, d_model) of each text.
std::vector<std::vector<float>> token_vectors(const TextModel& model,
                                              std::span<const Encoding> texts);

// The outputs of a classifier: (outputs) of each text; of a model that tags words (tokens, tags).
std::vector<std::vector<double>> text_outputs(const TextModel& model,
                                              std::span<const Encoding> texts);

// Probabilities of outputs (rows, labels): of each label alone if several may apply, else of the
// labels of a row. Empty for a score.
std::vector<double> label_shares(std::span<const double> outputs, const ClassifierTask& task);

// The likeliest `top` words for each [MASK] of each text.
std::vector<std::vector<std::vector<FillMask::Word>>> mask_words(const TextModel& model,
                                                                 std::span<const Encoding> texts,
                                                                 int64_t top);

}  // namespace hydramix
