// SPDX-License-Identifier: Apache-2.0
// Shows where values differ. Of JSON objects, such as a run's options, that is only the keys whose
// values are not the same everywhere: "train.rate=0.1, train.steps=5". Other values are shown in
// quotes.
#pragma once

#include <string>
#include <vector>

namespace hydramix {

class Disagreement {
 public:
  // others: the values that differ from the first.
  Disagreement(const std::string& value, const std::vector<std::string>& others);
  std::string shown(const std::string& value) const;  // one of them

 private:
  bool objects_ = true;            // all values are JSON objects
  std::vector<std::string> keys_;  // that differ, as JSON pointers
};

}  // namespace hydramix
