// SPDX-License-Identifier: Apache-2.0
#include "hydramix/registry.h"

#include <map>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct Entry {
  MixerInfo info;
  detail::MixerFactory factory;
  detail::MixerDescription description;
};

struct Registry {
  std::map<std::string, Entry> entries;
  // Registration runs before main, where an exception cannot be caught, so the first use throws
  // this.
  std::string error;
};

// A function-local static, so that it exists before any file's registrar runs.
Registry& registry() {
  static Registry instance;
  return instance;
}

const Registry& checked_registry() {
  HYDRAMIX_CHECK(registry().error.empty(), registry().error);
  return registry();
}

const Entry& find(const std::string& name) {
  const auto& entries = checked_registry().entries;
  const auto found = entries.find(name);
  HYDRAMIX_CHECK_USAGE(found != entries.end(), "unknown mixer '", name, "'.",
                       did_you_mean(name, mixer_names()), " Registered: ", join(mixer_names()),
                       ".");
  return found->second;
}

}  // namespace

namespace detail {

MixerRegistrar::MixerRegistrar(MixerInfo info, MixerFactory factory, MixerDescription description) {
  const std::string name = info.name;
  Entry entry{std::move(info), std::move(factory), std::move(description)};
  const bool added = registry().entries.emplace(name, std::move(entry)).second;
  if (!added)
    registry().error =
        "mixer '" + name + "' is registered twice. Give one of the two another name.";
}

}  // namespace detail

std::vector<std::string> mixer_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : checked_registry().entries) names.push_back(name);
  return names;
}

std::vector<std::string> causal_mixer_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : checked_registry().entries)
    if (entry.info.causal) names.push_back(name);
  return names;
}

std::vector<std::string> matrix_mixer_names() {
  auto names = mixer_names();
  std::erase_if(names, [](const std::string& name) { return !mixer_info(name).linear; });
  return names;
}

const MixerInfo& mixer_info(const std::string& name) { return find(name).info; }

MixerInfo mixer_info(const std::string& name, const MixerOptions& options) {
  const Entry& entry = find(name);
  validate(options);
  return entry.description(entry.info, options);
}

std::shared_ptr<Mixer> make_mixer(const std::string& name, Heads heads,
                                  const MixerOptions& options) {
  const Entry& entry = find(name);
  validate(options);
  HYDRAMIX_CHECK_USAGE(heads.H >= 1 && heads.P >= 1, "mixer '", name,
                       "': needs at least one head of at least one channel; got H = ", heads.H,
                       ", P = ", heads.P, ".");
  auto mixer = entry.factory(heads, options);
  mixer->info_ = std::make_shared<const MixerInfo>(mixer_info(name, options));
  return mixer;
}

}  // namespace hydramix
