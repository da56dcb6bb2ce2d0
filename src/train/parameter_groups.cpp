// SPDX-License-Identifier: Apache-2.0
#include "train/parameter_groups.h"

#include <algorithm>
#include <charconv>
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

// The groups in the options, and which of them have matched a weight so far.
class RequestedGroups {
 public:
  explicit RequestedGroups(const std::vector<std::string>& texts) {
    for (const auto& text : texts) groups_.push_back(parsed_group(text));
  }

  ParameterGroup of(const std::string& name, const torch::Tensor& weight, ParameterGroup common) {
    names_.push_back(name);
    ParameterGroup own = common;
    if (!decays(name, weight)) own.decay = 0;
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const GroupText& group) {
      return std::regex_search(name, group.pattern);
    });
    if (found == groups_.end()) return own;
    found->used = true;
    if (found->rate_share) own.rate = *found->rate_share * common.rate;
    own.rate = found->rate.value_or(own.rate);
    own.decay = found->decay.value_or(own.decay);
    return own;
  }

  // Call after of() has seen all weights.
  void check_used() const {
    for (const auto& group : groups_)
      HYDRAMIX_CHECK_USAGE(group.used, "optimizer.groups: ", in_quotes(group.text),
                           " fits no weight that an earlier group has not taken. Weights have "
                           "names from ",
                           names_.front(), " to ", names_.back(), ".");
  }

 private:
  std::vector<GroupText> groups_;
  std::vector<std::string> names_;
};

}  // namespace

ParameterGroups parameter_groups(const FlatParameters& parameters, ParameterGroup common,
                                 const std::vector<std::string>& texts) {
  RequestedGroups requested(texts);
  ParameterGroups result;
  auto& groups = result.groups;
  for (const auto& range : parameters.ranges()) {
    const auto own = requested.of(range.name, range.parameter, common);
    auto found = std::find(groups.begin(), groups.end(), own);
    if (found == groups.end()) found = groups.insert(groups.end(), own);
    result.group_of_range.push_back(static_cast<uint8_t>(found - groups.begin()));
  }
  HYDRAMIX_CHECK_USAGE(groups.size() <= 256, "optimizer.groups: ", groups.size(),
                       " different pairs of rate and decay; expected 256 at most. State fewer.");
  requested.check_used();
  return result;
}

void check_parameter_groups(const torch::nn::Module& model, const std::vector<std::string>& texts) {
  RequestedGroups requested(texts);
  for (const auto& [name, weight] : named_weights(model)) requested.of(name, weight, {0, 0});
  requested.check_used();
}

}  // namespace hydramix
