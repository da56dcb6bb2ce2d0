// SPDX-License-Identifier: Apache-2.0
// A trained encoder and its tokenizer, from the folder of a model or of a run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "hydramix/bert.h"
#include "hydramix/text_model.h"
#include "hydramix/tokenizer.h"

namespace hydramix {

struct TrainedModel {
  BertForMaskedLM model{nullptr};  // in evaluation mode, on the CPU
  Tokenizer tokenizer;
  std::filesystem::path origin;  // the file that holds the weights
};

// The folder of a classifier: `path` itself, or its model/ if `path` is a run of fine-tuning. Empty
// if there is no classifier; throws if the run is not complete.
std::filesystem::path classifier_folder(const std::filesystem::path& path);

// `path` is a model folder (config.json, model.safetensors, tokenizer.json), or the folder of a
// run: then `which` is "last", "best" (by evaluation loss) or "average" (if the run keeps one).
TrainedModel open_trained_model(const std::filesystem::path& path,
                                const std::string& which = "last");

enum class Wanted { kAny, kMaskedLm };

// The same with its tokenizer as a TextModel (see there for `usual_length`); with kAny also a
// classifier, which has no other weights than the last.
std::shared_ptr<const TextModel> open_text_model(const std::filesystem::path& path,
                                                 const std::string& which, Wanted wanted,
                                                 const TextModelOptions& options,
                                                 int64_t usual_length);

}  // namespace hydramix
