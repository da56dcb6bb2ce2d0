// SPDX-License-Identifier: Apache-2.0
// The columns, weights and options of a mixer, found by making small ones.
#pragma once

#include <string>
#include <vector>

#include "hydramix/registry.h"

namespace hydramix {

struct MixerProbe {
  int64_t branches;                                                   // matrices per head
  std::vector<Columns> projection;                                    // from in_proj
  std::vector<std::pair<std::string, std::vector<int64_t>>> learned;  // names and shapes
};

// Probes a mixer of the sizes that kProbeSizes names.
MixerProbe probe_mixer(const std::string& name);
inline constexpr const char* kProbeSizes = "H = 2, P = 4, qk_dim = 3, d_state = 5, max_length = 7";

// The options that change the mixer's weights, its columns or its output. An option that the
// experiment cannot try, for lack of another allowed value, is not among them.
std::vector<std::string> options_read(const std::string& name);

}  // namespace hydramix
