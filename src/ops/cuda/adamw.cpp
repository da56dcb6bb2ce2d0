// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/adamw.h"

#include "kernels/cuda/adamw.h"
#include "ops/cuda/launch.h"

namespace hydramix::on_cuda {

AdamWPass::AdamWPass(const std::vector<int64_t>& ends, const std::vector<uint8_t>& groups,
                     torch::Device device)
    : ends_(torch::tensor(ends, torch::kInt64).to(device)),
      groups_(torch::tensor(groups, torch::kUInt8).to(device)),
      squares_(torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat64).device(device))) {}

const torch::Tensor& AdamWPass::sum_of_squares(const torch::Tensor& gradients) {
  const c10::cuda::CUDAGuard guard(gradients.device());
  const int64_t n = gradients.numel();
  const auto work = torch::empty({cuda::sum_of_squares_workspace(n)}, squares_.options());
  check(cuda::sum_of_squares(n, gradients.data_ptr<float>(), squares_.data_ptr<double>(),
                             work.data_ptr<double>(), stream()),
        "adamw");
  return squares_;
}

void AdamWPass::step(const Buffers& b, const Step& step) {
  const c10::cuda::CUDAGuard guard(b.weight.device());
  // One upload: the step, then its groups.
  std::vector<double> numbers{step.gradient_scale,    step.beta1, step.beta2, step.epsilon,
                              step.denominator_scale, step.ema};
  static_assert(sizeof(cuda::AdamWStep) == 6 * sizeof(float));
  static_assert(sizeof(cuda::AdamWGroup) == 2 * sizeof(float));
  for (const auto& group : step.groups) numbers.insert(numbers.end(), {group.rate, group.keep});
  const auto uploaded = torch::tensor(numbers, torch::kFloat32).to(b.weight.device());
  const auto* at = uploaded.data_ptr<float>();
  cuda::AdamWBuffers buffers;
  buffers.gradient = b.gradient.data_ptr<float>();
  buffers.weight = b.weight.data_ptr<float>();
  buffers.m = b.mean.data_ptr<float>();
  buffers.v = b.square.data_ptr<float>();
  if (b.average.defined()) buffers.average = b.average.data_ptr<float>();
  if (b.rounded.defined()) buffers.copy = data<__nv_bfloat16>(b.rounded);
  check(cuda::adamw(
            b.weight.numel(), buffers,
            {ends_.data_ptr<int64_t>(), groups_.data_ptr<uint8_t>(),
             static_cast<int>(ends_.numel()), reinterpret_cast<const cuda::AdamWGroup*>(at + 6)},
            reinterpret_cast<const cuda::AdamWStep*>(at), squares_.data_ptr<double>(),
            static_cast<float>(step.clip), stream()),
        "adamw");
}

}  // namespace hydramix::on_cuda
