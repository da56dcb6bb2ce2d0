// SPDX-License-Identifier: Apache-2.0
#include "train/adamw.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/adamw.h"
#include "ops/backend.h"
#include "ops/cuda/adamw.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

struct ParameterRun {
  int64_t begin, size;
  std::size_t group;
};

template <typename T>
double sum_of_squares_cpu(const torch::Tensor& values) {
  const int64_t n = values.numel(), count = (n + kernels::kAdamRun - 1) / kernels::kAdamRun;
  std::vector<double> sums(static_cast<std::size_t>(count));
  const T* data = storage<T>(values);
  parallel(count, [&](int64_t i) {
    const int64_t begin = i * kernels::kAdamRun;
    sums[static_cast<std::size_t>(i)] =
        kernels::sum_of_squares<T>(std::min(kernels::kAdamRun, n - begin), data + begin);
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

AdamW::AdamW(FlatParameters& parameters, const AdamWOptions& options)
    : parameters_(parameters),
      options_(options),
      groups_(parameter_groups(parameters, {options.rate, options.decay}, options.groups)) {
  mean_ = torch::zeros_like(parameters.values());
  square_ = torch::zeros_like(parameters.values());
  if (options.ema > 0) average_ = parameters.values().clone();
  if (backend_of(parameters.values()) != Backend::kCuda) return;
  std::vector<int64_t> ends;
  // The gaps between parameters are zero and stay zero.
  for (const auto& range : parameters.ranges()) ends.push_back(range.begin + range.size);
  pass_ = std::make_shared<on_cuda::AdamWPass>(ends, groups_.group_of_range,
                                               parameters.values().device());
  // From the first forward pass on, products read the rounded weights that the step writes.
  rounded_ = parameters.values().to(torch::kBFloat16);
  parameters_.set_rounded(rounded_);
}

double AdamW::gradient_norm(double terms) const {
  const auto& gradients = parameters_.gradients();
  double squares;
  if (pass_) return std::sqrt(pass_->sum_of_squares(gradients).item<double>()) / terms;
  if (!gradients.is_cpu())
    squares = gradients.to(torch::kFloat64).square().sum().item<double>();
  else if (gradients.scalar_type() == torch::kFloat64)
    squares = sum_of_squares_cpu<double>(gradients);
  else
    squares = sum_of_squares_cpu<float>(gradients);
  return std::sqrt(squares) / terms;
}

void AdamW::step(double rate_share, double terms, double norm) {
  const auto before = static_cast<double>(steps);
  const double t = static_cast<double>(++steps);
  kernels::AdamWStep step{};
  step.gradient_scale = (norm > options_.clip ? options_.clip / norm : 1.0) / terms;
  step.beta1 = options_.beta1;
  step.beta2 = options_.beta2;
  step.epsilon = options_.epsilon;
  step.denominator_scale = 1 / std::sqrt(1 - std::pow(options_.beta2, t));
  step.ema =
      options_.ema_warmup ? std::min(options_.ema, (1 + before) / (10 + before)) : options_.ema;
  const bool times_rate = options_.decay_rule == "times_rate";
  std::vector<kernels::AdamWStep> own(groups_.groups.size(), step);  // for each group
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& group = groups_.groups[i];
    own[i].rate = group.rate * rate_share / (1 - std::pow(options_.beta1, t));
    own[i].keep = 1 - (times_rate ? group.rate * group.decay : group.decay) * rate_share;
  }
  if (pass_) {
    step_on_gpu(own, terms);
    return;
  }

  std::vector<ParameterRun> runs;
  for (std::size_t i = 0; i < groups_.group_of_range.size(); ++i) {
    const auto& range = parameters_.ranges()[i];
    for (int64_t done = 0; done < range.size; done += kernels::kAdamRun)
      runs.push_back({range.begin + done, std::min(kernels::kAdamRun, range.size - done),
                      groups_.group_of_range[i]});
  }
  torch::NoGradGuard no_grad;
  auto& gradients = parameters_.gradients();
  auto& values = parameters_.values();
  if (values.is_cpu()) {
    dispatch_storage(values, [&](auto type) {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, kernels::BFloat16>)
        parallel(static_cast<int64_t>(runs.size()), [&](int64_t i) {
          const ParameterRun& run = runs[static_cast<std::size_t>(i)];
          kernels::adamw<T>(run.size, own[run.group], storage<T>(gradients) + run.begin,
                            storage<T>(values) + run.begin, storage<T>(mean_) + run.begin,
                            storage<T>(square_) + run.begin,
                            average_.defined() ? storage<T>(average_) + run.begin : nullptr);
        });
    });
  } else {
    const auto g = gradients * step.gradient_scale;
    mean_.mul_(step.beta1).add_(g, 1 - step.beta1);
    square_.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
    const auto denominator = square_.sqrt().mul_(step.denominator_scale).add_(step.epsilon);
    for (std::size_t i = 0; i < groups_.group_of_range.size(); ++i) {
      const auto& range = parameters_.ranges()[i];
      const auto part = [&](const torch::Tensor& all) {
        return all.narrow(0, range.begin, range.size);
      };
      const auto& its = own[groups_.group_of_range[i]];
      part(values).mul_(its.keep).addcdiv_(part(mean_), part(denominator), -its.rate);
    }
    if (average_.defined()) average_.mul_(step.ema).add_(values, 1 - step.ema);
  }
  parameters_.mark_written();
}

// Clips by the norm that gradient_norm() left on the device.
void AdamW::step_on_gpu(const std::vector<kernels::AdamWStep>& steps_of_groups, double terms) {
  torch::NoGradGuard no_grad;
  auto& values = parameters_.values();
  const auto& step = steps_of_groups.front();
  std::vector<on_cuda::AdamWPass::Group> groups;
  for (const auto& own : steps_of_groups) groups.push_back({own.rate, own.keep});
  pass_->step({parameters_.gradients(), values, mean_, square_, average_, rounded_},
              {1 / terms, step.beta1, step.beta2, step.epsilon, step.denominator_scale, step.ema,
               options_.clip, groups});
  parameters_.mark_written();
  parameters_.set_rounded(rounded_);
}

}  // namespace hydramix
