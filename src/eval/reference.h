// SPDX-License-Identifier: Apache-2.0
// Translates constructor arguments of the published PyTorch modules to our options.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "hydramix/bert.h"

namespace hydramix {

// A constructor's keyword arguments as JSON text. Accepts Python's Infinity.
nlohmann::json parse_arguments(const std::string& text, const std::string& origin);

// Hydra(d_model, d_state = 64, d_conv = 7, expand = 2, headdim = 64, ngroups = 1, ...)
BlockOptions reference_hydra(const nlohmann::json& arguments, const std::string& origin);
// MatrixMixer(matrix_mixer_type, is_data_dependent, d_model, qk_dim, max_seq_len, ...); `is_dft` is
// the argument that the published class never passes on to its Vandermonde mixer.
BlockOptions reference_matrix_mixer(const nlohmann::json& arguments, bool is_dft,
                                    const std::string& origin);
// {vocab, hidden, layers, type_vocab, mixer: {Hydra's or MatrixMixer's arguments}}
BertOptions reference_bert(const nlohmann::json& arguments, bool is_dft, const std::string& origin);

}  // namespace hydramix
