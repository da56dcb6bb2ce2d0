// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include "kernels/cuda/adamw.h"
#include "ops/cuda/launch.h"
#include "ops/host_copy.h"

namespace hydramix::on_cuda {

torch::Tensor sum_of_squares(const AdamWPlan&, const torch::Tensor& gradient) {
  const c10::cuda::CUDAGuard guard(gradient.device());
  const int64_t n = gradient.numel();
  const auto options = gradient.options().dtype(torch::kFloat64);
  const auto work = torch::empty({cuda::sum_of_squares_workspace(n)}, options);
  const auto sum = torch::empty({}, options);
  check(cuda::sum_of_squares(n, gradient.data_ptr<float>(), sum.data_ptr<double>(),
                             work.data_ptr<double>(), stream()),
        "adamw");
  return sum;
}

void adamw_step(const AdamWPlan& plan, const AdamWBuffers& b, const AdamWUpdate& u) {
  const c10::cuda::CUDAGuard guard(b.weight.device());
  // One upload: the step, then its groups.
  std::vector<double> numbers{0, u.beta1, u.beta2, u.epsilon, u.denominator_scale, u.ema};
  static_assert(sizeof(cuda::AdamWStep) == 6 * sizeof(float));
  static_assert(sizeof(cuda::AdamWGroup) == 2 * sizeof(float));
  for (const auto& group : u.groups) numbers.insert(numbers.end(), {group.rate, group.keep});
  const auto uploaded = upload(numbers, b.weight.device()).to(torch::kFloat32);
  uploaded[0].copy_(u.terms.reciprocal());
  const auto* at = uploaded.data_ptr<float>();
  cuda::AdamWBuffers buffers;
  buffers.gradient = b.gradient.data_ptr<float>();
  buffers.weight = b.weight.data_ptr<float>();
  buffers.m = b.mean.data_ptr<float>();
  buffers.v = b.square.data_ptr<float>();
  if (b.average.defined()) buffers.average = b.average.data_ptr<float>();
  if (b.rounded.defined()) buffers.copy = data<__nv_bfloat16>(b.rounded);
  check(cuda::adamw(b.weight.numel(), buffers,
                    {plan.ends.data_ptr<int64_t>(), plan.groups.data_ptr<uint8_t>(),
                     static_cast<int>(plan.ends.numel()),
                     reinterpret_cast<const cuda::AdamWGroup*>(at + 6)},
                    reinterpret_cast<const cuda::AdamWStep*>(at), u.squares.data_ptr<double>(),
                    static_cast<float>(u.clip), stream()),
        "adamw");
}

}  // namespace hydramix::on_cuda
