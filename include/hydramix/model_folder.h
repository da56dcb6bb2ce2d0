// SPDX-License-Identifier: Apache-2.0
// A model on disk: a folder of
//
//   config.json         {"format": "hydramix-model", "version": 1, "model": all of BertOptions}
//   model.safetensors   the weights under their published names; the same config as metadata
//
// Training puts tokenizer.json beside them.
//
// Each file is written whole or not at all. Weights and options that do not belong together, as
// after a crash between the two, are recognised by the copy of the config.
#pragma once

#include <filesystem>

#include "hydramix/bert.h"

namespace hydramix {

// Makes the folder where there is none, and replaces a model that is already in it.
void save_model(const std::filesystem::path& folder, const BertForMaskedLM& model);

// The same model, to the bit, on the CPU. Every failure is an Error that names file and key.
BertForMaskedLM load_model(const std::filesystem::path& folder);

}  // namespace hydramix
