// SPDX-License-Identifier: Apache-2.0
// A model on disk: a folder of
//
//   config.json         {"format": "hydramix-model", "version": 1, "model": all of BertOptions}
//   model.safetensors   the weights under their published names; the same config as metadata
//
// A classifier's config has "classifier" too: all of ClassifierOptions, the name of its task and
// the labels of its classes. Training puts tokenizer.json beside them.
//
// Each file is written whole or not at all. Weights and options that do not belong together, as
// after a crash between the two, are recognised by the copy of the config.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hydramix/bert.h"
#include "hydramix/sequence_classifier.h"

namespace hydramix {

// Makes the folder where there is none, and replaces a model that is already in it.
void save_model(const std::filesystem::path& folder, const BertForMaskedLM& model);

// The same model, to the bit, on the CPU. Every failure is an Error that names file and key.
BertForMaskedLM load_model(const std::filesystem::path& folder);

struct ClassifierFolder {
  SequenceClassifier model{nullptr};
  std::string task;                 // its name
  std::vector<std::string> labels;  // of the classes, in the order of the outputs; empty: a score
};

// As save_model(). As many labels as outputs, all different, or none for one output.
void save_classifier(const std::filesystem::path& folder, const SequenceClassifier& model,
                     const std::string& task, const std::vector<std::string>& labels);

// As load_model().
ClassifierFolder load_classifier(const std::filesystem::path& folder);

// Whether the folder's config.json is a classifier's; false where it cannot be read.
bool is_classifier(const std::filesystem::path& folder);

}  // namespace hydramix
