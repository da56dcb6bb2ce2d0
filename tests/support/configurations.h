// SPDX-License-Identifier: Apache-2.0
// Mixers with options that change what they compute: for tests of every mixer.
#pragma once

#include <algorithm>
#include <regex>

#include "hydramix/registry.h"
#include "support/tensors.h"

namespace hydramix::test {

struct Configuration {
  std::string mixer;
  std::vector<std::string> changes = {};  // assignments such as "order=3"; none: as the other tests

  MixerOptions options(MixerOptions from = CaseSizes().options) const {
    for (const auto& change : changes) set(from, change);
    return from;
  }
  std::string name() const {
    std::string text = mixer;
    for (const auto& change : changes) text += "_" + change;
    return std::regex_replace(text, std::regex("="), "_");
  }
};

inline void PrintTo(const Configuration& c, std::ostream* to) { *to << c.name(); }

inline std::string configuration_name(const ::testing::TestParamInfo<Configuration>& test) {
  return test.param.name();
}

// A configuration of `bidirectional` over a core.
inline Configuration over_core(const std::string& core, const std::string& combine) {
  return {"bidirectional", {"core=" + core, "combine=" + combine}};
}

// Every mixer with the usual options, and `bidirectional` over every core.
inline std::vector<Configuration> every_mixer() {
  std::vector<Configuration> all;
  for (const auto& name : mixer_names()) all.push_back({name});
  for (const auto& core : causal_mixer_names()) all.push_back(over_core(core, "quasi"));
  return all;
}

// Every name with the usual options, then those of them whose formula depends on options with
// several of these. Of `bidirectional` every core but the default in Hydra's construction.
inline std::vector<Configuration> configurations(const std::vector<std::string>& names) {
  std::vector<Configuration> all;
  for (const auto& name : names) all.push_back({name});
  std::vector<Configuration> others{
      {"hyena", {"order=3"}},
      {"hyena_bidirectional", {"order=3"}},
      {"s4d", {"spectrum=inverse"}},
      {"s4d", {"spectrum=real"}},
      {"s4d", {"discretisation=bilinear"}},
      {"s4d", {"discretisation=euler"}},
      {"s4d_bidirectional", {"spectrum=inverse", "discretisation=euler"}},
      {"s4d_bidirectional", {"spectrum=real", "discretisation=bilinear"}},
      {"s4nd", {"spectrum=inverse", "discretisation=euler"}},
      {"s4nd", {"spectrum=real"}},
      {"s4nd", {"discretisation=bilinear"}},
      {"h3", {"spectrum=inverse"}},
      {"h3", {"spectrum=real"}},
      {"h3", {"discretisation=euler"}},
      {"kaleidoscope", {"kaleidoscope_width=2"}},
      {"kaleidoscope", {"kaleidoscope_expansion=2"}},
      {"mlp_mixer", {"token_hidden=5"}},
      {"mlp_mixer_nonlinear", {"token_hidden=5"}},
      {"bidirectional", {"core=s6", "own_weights=true"}}};
  for (const auto& core : causal_mixer_names())
    if (core != MixerOptions().core) others.push_back(over_core(core, "quasi"));
  for (const auto& c : others)
    if (std::find(names.begin(), names.end(), c.mixer) != names.end()) all.push_back(c);
  return all;
}

inline MixerCase random_case(const Configuration& c, CaseSizes sizes, torch::ScalarType dtype,
                             uint64_t seed) {
  sizes.options = c.options(sizes.options);
  return random_case(c.mixer, sizes, dtype, seed);
}

}  // namespace hydramix::test
