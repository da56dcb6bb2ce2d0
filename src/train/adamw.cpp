// SPDX-License-Identifier: Apache-2.0
#include "train/adamw.h"

#include <algorithm>
#include <cmath>

namespace hydramix {
namespace {

AdamWPlan plan_of(FlatParameters& parameters, const ParameterGroups& groups) {
  std::vector<AdamWPlan::Range> ranges;
  for (std::size_t i = 0; i < parameters.ranges().size(); ++i) {
    const auto& range = parameters.ranges()[i];
    ranges.push_back({range.begin, range.size, groups.group_of_range[i]});
  }
  return adamw_plan(std::move(ranges), parameters.values().device());
}

}  // namespace

AdamW::AdamW(FlatParameters& parameters, const AdamWOptions& options)
    : parameters_(parameters),
      options_(options),
      groups_(parameter_groups(parameters, {options.rate, options.decay}, options.groups)),
      plan_(plan_of(parameters, groups_)) {
  mean_ = torch::zeros_like(parameters.values());
  square_ = torch::zeros_like(parameters.values());
  if (options.ema > 0) average_ = parameters.values().clone();
  rounded_ = rounded_weights(parameters.values());
  // From the first forward pass on products read the weights where the step rounds them.
  if (rounded_.defined()) parameters_.set_rounded(rounded_);
}

torch::Tensor AdamW::step(double rate_share, const torch::Tensor& loss,
                          const torch::Tensor& terms) {
  // Zero times a loss that is not finite is NaN.
  const auto squares = sum_of_squares(plan_, parameters_.gradients()) + 0 * loss;
  const auto before = static_cast<double>(steps);
  const auto t = static_cast<double>(++steps);
  AdamWUpdate update{
      {},
      terms,
      squares,
      options_.clip,
      options_.beta1,
      options_.beta2,
      options_.epsilon,
      1 / std::sqrt(1 - std::pow(options_.beta2, t)),
      options_.ema_warmup ? std::min(options_.ema, (1 + before) / (10 + before)) : options_.ema};
  const bool times_rate = options_.decay_rule == "times_rate";
  for (const auto& group : groups_.groups)
    update.groups.push_back(
        {group.rate * rate_share / (1 - std::pow(options_.beta1, t)),
         1 - (times_rate ? group.rate * group.decay : group.decay) * rate_share});
  adamw_step(plan_,
             {parameters_.gradients(), parameters_.values(), mean_, square_, average_, rounded_},
             update);
  parameters_.mark_written();
  if (rounded_.defined()) parameters_.set_rounded(rounded_);
  return squares.sqrt() / terms;
}

void AdamW::swap_average() {
  torch::NoGradGuard no_grad;
  const auto weights = parameters_.values().clone();
  parameters_.values().copy_(average_);
  average_.copy_(weights);
  parameters_.mark_written();
  if (!rounded_.defined()) return;
  // In place: captured steps read this memory.
  rounded_.copy_(parameters_.values());
  parameters_.set_rounded(rounded_);
}

}  // namespace hydramix
