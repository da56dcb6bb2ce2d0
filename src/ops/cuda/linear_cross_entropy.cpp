// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cross_entropy.h"

#include "kernels/cuda/cross_entropy.h"
#include "ops/cuda/launch.h"
#include "ops/projection.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;

// Matrix products of other widths are half as fast.
constexpr int64_t kColumns = 64;
constexpr double kPaddingLogit = -1e30;  // of padding classes

}  // namespace

// Gradients overwrite the logits.
CrossEntropy cross_entropy_in_chunks(const Tensor& inputs, const Tensor& weight,
                                     const Tensor& rounded_weight, const Tensor& biases,
                                     const Tensor& classes_of_rows, int64_t chunk,
                                     CrossEntropyGradients* gradients) {
  const auto x = inputs.to(torch::kBFloat16).contiguous();
  const auto bias = biases.to(torch::kFloat32).contiguous();
  const auto targets = classes_of_rows.contiguous();
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t m = x.size(0), classes = weight.size(0);
  const int64_t V = (classes + kColumns - 1) / kColumns * kColumns;
  const auto w = torch::constant_pad_nd(rounded_weight, {0, 0, 0, V - classes});  // (V, d)
  const auto b = torch::constant_pad_nd(bias, {0, V - classes}, kPaddingLogit);
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
    *gradients = {
        dx.to(inputs.scalar_type()),
        m == 0 ? torch::zeros_like(weight) : dweight.narrow(0, 0, classes).to(weight.scalar_type()),
        dbias.narrow(0, 0, classes).to(biases.scalar_type())};
  return {sum, correct};
}

}  // namespace hydramix::on_cuda
