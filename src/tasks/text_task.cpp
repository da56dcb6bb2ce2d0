// SPDX-License-Identifier: Apache-2.0
#include "tasks/text_task.h"

#include <algorithm>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {

const std::vector<std::string>& label_kinds() {
  static const std::vector<std::string> names{"classes", "score", "labels", "tokens", "pairs"};
  return names;
}

std::string kind_name(LabelKind kind) { return label_kinds()[static_cast<std::size_t>(kind)]; }

LabelKind label_kind(const std::string& name) {
  const auto& names = label_kinds();
  const auto found = std::find(names.begin(), names.end(), name);
  HYDRAMIX_CHECK_USAGE(found != names.end(), "task: there is no kind '", name,
                       "'; expected one of ", join(names), ".", did_you_mean(name, names));
  return static_cast<LabelKind>(found - names.begin());
}

}  // namespace hydramix
