// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cross_entropy.h"

#include "ops/gpu/launch.h"
#include "ops/gpu/ops.h"
#include "ops/gpu/rounded_weights.h"
#include "ops/gpu/sums.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gradients {
  Tensor x, weight, bias;
};

// Matrix products of other widths are half as fast.
constexpr int64_t kColumns = 64;
constexpr double kNever = -1e30;  // the logit of a class that is not there

// With gradients of the inputs if `gradients` is there: they take the place of the logits.
CrossEntropy in_chunks(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& targets, int64_t chunk, Gradients* gradients) {
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t m = x.size(0), classes = weight.size(0);
  const int64_t V = (classes + kColumns - 1) / kColumns * kColumns;
  const auto w = torch::constant_pad_nd(rounded(weight), {0, 0, 0, V - classes});  // (V, d)
  const auto b = torch::constant_pad_nd(bias, {0, V - classes}, kNever);
  const auto floats = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
  const auto sum = torch::zeros({}, floats.dtype(torch::kFloat64));
  const auto correct = torch::zeros({}, floats.dtype(torch::kInt64));
  const auto loss = torch::empty({std::min(chunk, m)}, floats);
  const auto right = torch::empty({std::min(chunk, m)}, floats.dtype(torch::kUInt8));
  Tensor dx, dweight, dbias, work;
  if (gradients != nullptr) {
    dx = torch::empty(x.sizes(), x.options());
    dbias = torch::zeros({V}, floats);
    work = torch::empty({cuda::column_sums_workspace(std::min(chunk, m), static_cast<int>(V))},
                        floats);
  }
  for (int64_t i = 0; i < m; i += chunk) {
    const int64_t rows = std::min(chunk, m - i);
    const auto part = x.narrow(0, i, rows);
    const auto z = torch::mm(part, w.t());
    cuda::CrossEntropyRows<__nv_bfloat16> p;
    p.rows = rows, p.columns = static_cast<int>(V);
    p.z = data<__nv_bfloat16>(z), p.z_row = V;
    p.bias = b.data_ptr<float>();
    p.targets = targets.data_ptr<int64_t>() + i;
    p.loss = loss.data_ptr<float>(), p.correct = right.data_ptr<uint8_t>();
    p.gradient = gradients != nullptr;
    check(cuda::cross_entropy(p, stream()), "cross-entropy");
    check(cuda::add_loss_sums(rows, p.loss, p.correct, sum.data_ptr<double>(),
                              correct.data_ptr<int64_t>(), stream()),
          "cross-entropy");
    if (gradients == nullptr) continue;
    check(cuda::add_column_sums(rows, p.columns, static_cast<const __nv_bfloat16*>(p.z), V,
                                dbias.data_ptr<float>(), work.data_ptr<float>(), stream()),
          "cross-entropy");
    auto dpart = dx.narrow(0, i, rows);
    torch::mm_out(dpart, z, w);
    const auto dw = product_in_float(z.t(), part);
    dweight = dweight.defined() ? dweight.add_(dw) : dw;
  }
  if (gradients != nullptr)
    *gradients = {dx, m == 0 ? torch::zeros_like(weight) : dweight.narrow(0, 0, classes),
                  dbias.narrow(0, 0, classes)};
  return {sum, correct};
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& targets, int64_t chunk) {
    Gradients gradients;
    const auto result = in_chunks(x, weight, bias, targets, chunk, &gradients);
    ctx->save_for_backward({gradients.x, gradients.weight, gradients.bias});
    ctx->mark_non_differentiable({result.correct});
    return {result.sum, result.correct};
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("cross-entropy");
    variable_list gradients;
    for (const auto& gradient : ctx->get_saved_variables())
      gradients.push_back(gradient * outputs[0].to(gradient.scalar_type()));
    gradients.resize(5);  // none for targets and chunk
    return gradients;
  }
};

}  // namespace

CrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& targets, int64_t chunk) {
  const auto rows = x.contiguous(), shift = bias.contiguous(), wanted = targets.contiguous();
  if (!wants_gradient({rows, weight, shift}))
    return in_chunks(rows, weight, shift, wanted, chunk, nullptr);
  const auto result = LinearCrossEntropy::apply(rows, weight, shift, wanted, chunk);
  return {result[0], result[1]};
}

}  // namespace hydramix::gpu
