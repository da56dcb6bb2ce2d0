// SPDX-License-Identifier: Apache-2.0
// Kinds of malformed input, and their counts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hydramix {

enum class Cause { bad_json, missing_field, not_a_string, not_utf8, too_long, damaged_archive };
inline constexpr std::array<std::string_view, 6> kCauseNames = {
    "bad_json", "missing_field", "not_a_string", "not_utf8", "too_long", "damaged_archive"};

struct Defect {
  Cause cause;
  int64_t file;        // number of the input file
  int64_t line;        // counted from 1
  std::string detail;  // what was found, what was expected
};

class DefectCounts {
 public:
  int64_t& operator[](Cause cause) { return counts_[static_cast<std::size_t>(cause)]; }
  int64_t operator[](Cause cause) const { return counts_[static_cast<std::size_t>(cause)]; }
  int64_t total() const;
  std::string summary() const;  // "3 malformed (2 bad_json, 1 not_utf8)"
  nlohmann::ordered_json to_json() const;
  // Error names `origin` and the key.
  static DefectCounts from_json(const nlohmann::ordered_json& json, const std::string& origin);

 private:
  std::array<int64_t, kCauseNames.size()> counts_ = {};
};

}  // namespace hydramix
