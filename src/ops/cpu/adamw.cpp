// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <cmath>

#include "kernels/cpu/adamw.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using kernels::kAdamRun;
using torch::Tensor;

// f(T{}) for the type of a buffer, float32 or float64.
template <class F>
auto dispatch_wide(const Tensor& t, F&& f) {
  return t.scalar_type() == torch::kFloat64 ? f(double{}) : f(float{});
}

}  // namespace

Tensor sum_of_squares(const AdamWPlan&, const Tensor& gradient) {
  const int64_t n = gradient.numel(), count = (n + kAdamRun - 1) / kAdamRun;
  std::vector<double> sums(static_cast<std::size_t>(count));
  dispatch_wide(gradient, [&](auto type) {
    const auto* data = storage<decltype(type)>(gradient);
    parallel(count, [&](int64_t i) {
      const int64_t begin = i * kAdamRun;
      sums[static_cast<std::size_t>(i)] =
          kernels::sum_of_squares(std::min(kAdamRun, n - begin), data + begin);
    });
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return torch::tensor(sum, torch::kFloat64);
}

void adamw_step(const AdamWPlan& plan, const AdamWBuffers& b, const AdamWUpdate& u) {
  const double scale = gradient_scale(u);
  if (!std::isfinite(scale)) return;
  // Runs of one parameter each, so that a task has one group.
  std::vector<AdamWPlan::Range> runs;
  for (const auto& range : plan.ranges)
    for (int64_t done = 0; done < range.size; done += kAdamRun)
      runs.push_back({range.begin + done, std::min(kAdamRun, range.size - done), range.group});
  std::vector<kernels::AdamWCoefficients> steps;  // for each group
  for (const auto& group : u.groups)
    steps.push_back(
        {scale, u.beta1, u.beta2, u.epsilon, group.rate, u.denominator_scale, group.keep, u.ema});
  dispatch_wide(b.weight, [&](auto type) {
    using T = decltype(type);
    parallel(static_cast<int64_t>(runs.size()), [&](int64_t i) {
      const auto& run = runs[static_cast<std::size_t>(i)];
      const auto at = [&](const Tensor& t) { return storage<T>(t) + run.begin; };
      kernels::adamw<T>(run.size, steps[run.group], at(b.gradient), at(b.weight), at(b.mean),
                        at(b.square), b.average.defined() ? at(b.average) : nullptr);
    });
  });
}

}  // namespace hydramix::on_cpu
