// SPDX-License-Identifier: Apache-2.0
// Mixers by name. A mixer registers itself in its own file:
//
//   HYDRAMIX_REGISTER_MIXER("toeplitz_di", ToeplitzDi, .matrix_class = "Toeplitz", ...);
//
// and is then known to the block, the command line, the gallery and every test of the framework.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/mixer.h"

namespace hydramix {

// Every registered name, sorted.
std::vector<std::string> mixer_names();
// The names of mixers that are matrices (MixerInfo::linear).
std::vector<std::string> matrix_mixer_names();
// Throws UsageError with the nearest name and all known ones.
const MixerInfo& mixer_info(const std::string& name);
// The metadata of the mixer that make_mixer() makes with these options.
MixerInfo mixer_info(const std::string& name, const MixerOptions& options);
std::shared_ptr<Mixer> make_mixer(const std::string& name, Heads heads,
                                  const MixerOptions& options);

namespace detail {

using MixerFactory = std::function<std::shared_ptr<Mixer>(Heads, const MixerOptions&)>;

using MixerDescription = std::function<MixerInfo(const MixerInfo&, const MixerOptions&)>;

struct MixerRegistrar {
  MixerRegistrar(MixerInfo info, MixerFactory factory, MixerDescription description);
};

}  // namespace detail
}  // namespace hydramix

#define HYDRAMIX_REGISTER_MIXER(mixer_name, Class, ...)                      \
  static const ::hydramix::detail::MixerRegistrar registrar_of_##Class(      \
      ::hydramix::MixerInfo{.name = mixer_name, __VA_ARGS__},                \
      [](::hydramix::Heads heads, const ::hydramix::MixerOptions& options) { \
        return std::make_shared<Class>(heads, options);                      \
      },                                                                     \
      &Class::info_with)
