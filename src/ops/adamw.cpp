// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <cmath>

#include "ops/backend.h"

namespace hydramix {
namespace {

using torch::Tensor;

// For float64 on a GPU, by LibTorch's operations.
void adamw_step_ref(const AdamWPlan& plan, const AdamWBuffers& b, const AdamWUpdate& u) {
  const double scale = gradient_scale(u);
  if (!std::isfinite(scale)) return;
  const auto g = b.gradient * scale;
  b.mean.mul_(u.beta1).add_(g, 1 - u.beta1);
  b.square.mul_(u.beta2).addcmul_(g, g, 1 - u.beta2);
  const auto denominator = b.square.sqrt().mul_(u.denominator_scale).add_(u.epsilon);
  for (const auto& range : plan.ranges) {
    const auto part = [&](const Tensor& all) { return all.narrow(0, range.begin, range.size); };
    const auto& group = u.groups[range.group];
    part(b.weight).mul_(group.keep).addcdiv_(part(b.mean), part(denominator), -group.rate);
  }
  if (b.average.defined()) b.average.mul_(u.ema).add_(b.weight, 1 - u.ema);
}

}  // namespace

double gradient_scale(const AdamWUpdate& u) {
  const double terms = u.terms.item<double>(), norm = std::sqrt(u.squares.item<double>()) / terms;
  if (!std::isfinite(norm)) return norm;
  return (norm > u.clip ? u.clip / norm : 1.0) / terms;
}

AdamWPlan adamw_plan(std::vector<AdamWPlan::Range> ranges, torch::Device device) {
  AdamWPlan plan{std::move(ranges), {}, {}};
  if (!device.is_cuda()) return plan;
  // The gap between a parameter and the next one is zero and stays so.
  std::vector<int64_t> ends;
  std::vector<uint8_t> groups;
  for (const auto& range : plan.ranges) {
    ends.push_back(range.begin + range.size);
    groups.push_back(range.group);
  }
  plan.ends = torch::tensor(ends, torch::kInt64).to(device);
  plan.groups = torch::tensor(groups, torch::kUInt8).to(device);
  return plan;
}

Tensor rounded_weights(const Tensor& weight) {
  return backend_of(weight) == Backend::kCuda ? weight.to(torch::kBFloat16) : Tensor();
}

Tensor sum_of_squares(const AdamWPlan& plan, const Tensor& gradient) {
  if (backend_of(gradient) == Backend::kLibTorch)
    return gradient.to(torch::kFloat64).square().sum();
  return HYDRAMIX_ON_BACKEND(gradient, sum_of_squares, plan, gradient);
}

void adamw_step(const AdamWPlan& plan, const AdamWBuffers& buffers, const AdamWUpdate& update) {
  const torch::NoGradGuard no_grad;
  if (backend_of(buffers.weight) == Backend::kLibTorch)
    adamw_step_ref(plan, buffers, update);
  else
    HYDRAMIX_ON_BACKEND(buffers.weight, adamw_step, plan, buffers, update);
}

}  // namespace hydramix
