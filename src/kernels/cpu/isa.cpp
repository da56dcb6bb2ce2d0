// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <mutex>

#include "base/spelling.h"
#include "hydramix/error.h"
#include "kernels/cpu/targets.h"

#include <hwy/highway.h>

namespace hydramix::kernels {
namespace {

void choose(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);  // 0: what the machine has
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::string> instruction_sets() {
  const int64_t in_use = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(0);
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(target));
  hwy::SetSupportedTargetsForTest(in_use);
  return names;
}

std::string instruction_set() {
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

void use_instruction_set(const std::string& name) {
  choose(0);
  if (name.empty()) return;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (hwy::TargetName(target) == name) return choose(target);
  throw UsageError(concat("HYDRAMIX_ISA: this machine and this build have no '", name,
                          "'; they have ", join(instruction_sets()),
                          ". Name one of those, or unset HYDRAMIX_ISA."));
}

void use_instruction_set_of_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* name = std::getenv("HYDRAMIX_ISA"); name != nullptr && *name != '\0')
      use_instruction_set(name);
  });
}

}  // namespace hydramix::kernels
