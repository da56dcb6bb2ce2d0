// SPDX-License-Identifier: Apache-2.0
#include "train/parameter_groups.h"

#include <charconv>
#include <limits>
#include <optional>
#include <regex>
#include <sstream>

#include "base/quotes.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

struct GroupText {
  std::string text;
  std::regex pattern;
  std::optional<double> rate, rate_share, decay;
  bool used = false;
};

[[noreturn]] void fail_group(const std::string& text, const std::string& reason) {
  throw UsageError(concat("optimizer.groups: ", in_quotes(text), ": ", reason,
                          " Expected PATTERN rate=R decay=D, R a number or x and a number, as in "
                          "\"filter rate=1e-3 decay=0.1\"."));
}

double group_number(const std::string& text, std::string_view number) {
  double value = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end.ec != std::errc() || end.ptr != number.data() + number.size() || !(value >= 0) ||
      value > 1e3)
    fail_group(text, concat("'", number, "' is no number from 0 to 1000."));
  return value;
}

GroupText parsed_group(const std::string& text) {
  GroupText group;
  group.text = text;
  std::istringstream words(text);
  std::string pattern;
  if (!(words >> pattern)) fail_group(text, "it is empty.");
  try {
    group.pattern = std::regex(pattern);
  } catch (const std::regex_error& error) {
    fail_group(text, concat("'", pattern, "' is no regular expression: ", error.what(), "."));
  }
  for (std::string word; words >> word;) {
    const std::string_view all = word;
    if (all.starts_with("rate=x"))
      group.rate_share = group_number(text, all.substr(6));
    else if (all.starts_with("rate="))
      group.rate = group_number(text, all.substr(5));
    else if (all.starts_with("decay="))
      group.decay = group_number(text, all.substr(6));
    else
      fail_group(text, concat("'", word, "' is neither rate= nor decay=."));
  }
  if (!group.rate && !group.rate_share && !group.decay) fail_group(text, "it states nothing.");
  return group;
}

}  // namespace

ParameterGroups parameter_groups(const FlatParameters& parameters, ParameterGroup common,
                                 const std::vector<std::string>& texts) {
  std::vector<GroupText> given;
  for (const auto& text : texts) given.push_back(parsed_group(text));
  ParameterGroups result;
  for (const auto& range : parameters.ranges()) {
    ParameterGroup own = common;
    if (!decays(range.name, range.parameter)) own.decay = 0;
    for (auto& group : given) {
      if (!std::regex_search(range.name, group.pattern)) continue;
      group.used = true;
      if (group.rate_share) own.rate = *group.rate_share * common.rate;
      own.rate = group.rate.value_or(own.rate);
      own.decay = group.decay.value_or(own.decay);
      break;
    }
    std::size_t number = 0;
    while (number < result.groups.size() &&
           (result.groups[number].rate != own.rate || result.groups[number].decay != own.decay))
      ++number;
    if (number == result.groups.size()) result.groups.push_back(own);
    HYDRAMIX_CHECK_USAGE(
        number <= std::numeric_limits<uint8_t>::max(),
        "optimizer.groups: more than 256 different rates and decays. State fewer.");
    result.of_range.push_back(static_cast<uint8_t>(number));
  }
  for (const auto& group : given)
    HYDRAMIX_CHECK_USAGE(group.used, "optimizer.groups: ", in_quotes(group.text),
                         " fits no weight that an earlier group has not taken. The first weights "
                         "are called ",
                         parameters.ranges().front().name, " ... ", parameters.ranges().back().name,
                         ".");
  return result;
}

}  // namespace hydramix
