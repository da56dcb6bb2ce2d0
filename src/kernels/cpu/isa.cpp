// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/isa.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

int64_t Target() { return HWY_TARGET; }

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix::kernels {
namespace {

HWY_EXPORT(Target);

std::atomic<bool> environment_asked{false};

void choose(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);  // 0: all that the machine has
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void choose(const std::string& name) {
  choose(0);
  if (name.empty()) return;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (hwy::TargetName(target) == name) return choose(target);
  throw UsageError(concat("HYDRAMIX_ISA: this machine and this build have no '", name,
                          "'; they have ", join(instruction_sets()),
                          ". Name one of those, or unset HYDRAMIX_ISA."));
}

}  // namespace

std::vector<std::string> instruction_sets() {
  const int64_t in_use = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(0);
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(target));
  choose(in_use);
  return names;
}

std::string instruction_set() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(Target)()); }

void use_instruction_set(const std::string& name) {
  environment_asked = true;  // HYDRAMIX_ISA has no effect from now on
  choose(name);
}

void use_instruction_set_of_environment() {
  if (environment_asked) return;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (environment_asked) return;
  if (const char* name = std::getenv("HYDRAMIX_ISA"); name != nullptr && *name != '\0')
    choose(std::string(name));  // if this throws, the next call tries again
  environment_asked = true;
}

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
