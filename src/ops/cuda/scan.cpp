// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "kernels/cuda/plain_scan.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;
using B16 = __nv_bfloat16;

cuda::ScanShape shape_of(const ScanCall& call) {
  const Tensor& b = call.direction[call.direction[0].b.defined() ? 0 : 1].b;
  const Tensor& dt = call.direction[call.direction[0].dt.defined() ? 0 : 1].dt;
  cuda::ScanShape s{};
  s.H = static_cast<int>(call.x.size(1));
  s.P = static_cast<int>(call.x.size(2));
  s.G = static_cast<int>(b.size(1));
  s.N = static_cast<int>(b.size(2));
  s.shift = static_cast<int>(call.settings.shift);
  for (const int d : {0, 1}) s.on[d] = call.direction[d].dt.defined();
  s.dt_low = static_cast<float>(call.settings.dt_low);
  s.dt_high = static_cast<float>(call.settings.dt_high);
  s.dt_is_float = dt.scalar_type() == torch::kFloat32;
  s.delta_is_float = call.delta.defined() && call.delta.scalar_type() == torch::kFloat32;
  return s;
}

// Whether the kernels for tensor cores take the call; the plain ones take any.
bool fits_tensor_cores(const ScanCall& call) {
  return call.x.scalar_type() == torch::kBFloat16 &&
         cuda::scan_fits(shape_of(call), call.gradients);
}

cuda::PassObserver observer_of(const ScanCall& call) {
  if (!call.passed) return {};
  return {[](void* context, const char* pass) {
            (*static_cast<const std::function<void(const char*)>*>(context))(pass);
          },
          const_cast<std::function<void(const char*)>*>(&call.passed)};
}

// Parts of heads and directions, which share a GPU.
int walks(const cuda::ScanShape& s) { return 2 * s.H * s.P / (s.P % 64 == 0 ? 64 : 32); }

const float* floats(const Tensor& t) { return t.defined() ? t.data_ptr<float>() : nullptr; }
void* raw(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }
int64_t row(const Tensor& t) { return t.defined() ? t.stride(0) : 0; }

// For either kernel: they differ in the type of what is stored.
template <typename Inputs, typename S>
Inputs inputs_of(const ScanCall& call) {
  Inputs in;
  in.x = data<S>(call.x);
  in.x_row = call.x.stride(0);
  for (const int d : {0, 1})
    in.direction[d] = {raw(call.direction[d].dt),
                       static_cast<S*>(raw(call.direction[d].b)),
                       static_cast<S*>(raw(call.direction[d].c)),
                       row(call.direction[d].dt),
                       row(call.direction[d].b),
                       row(call.direction[d].c)};
  in.dt_bias = floats(call.dt_bias);
  in.A = floats(call.A);
  in.diagonal = floats(call.diagonal);
  in.delta = raw(call.delta);
  in.delta_row = row(call.delta);
  return in;
}

template <typename Gradients, typename S>
Gradients gradients_of(const ScanGradients& g) {
  Gradients out;
  out.x = data<S>(g.x);
  out.x_row = g.x.stride(0);
  for (const int d : {0, 1})
    out.direction[d] = {raw(g.direction[d].dt),
                        static_cast<S*>(raw(g.direction[d].b)),
                        static_cast<S*>(raw(g.direction[d].c)),
                        row(g.direction[d].dt),
                        row(g.direction[d].b),
                        row(g.direction[d].c)};
  out.dt_bias = static_cast<float*>(raw(g.dt_bias));
  out.A = static_cast<float*>(raw(g.A));
  out.diagonal = static_cast<float*>(raw(g.diagonal));
  out.delta = raw(g.delta);
  out.delta_row = row(g.delta);
  return out;
}

// The call with rows aligned to 16 bytes where kernels read them so.
ScanCall aligned(const ScanCall& given) {
  ScanCall call = given;
  call.x = aligned_rows(call.x);
  for (auto& direction : call.direction)
    if (direction.dt.defined()) {
      direction.b = aligned_rows(direction.b);
      direction.c = aligned_rows(direction.c);
    }
  return call;
}

}  // namespace

std::vector<Tensor> scan_forward(const ScanCall& given, const Tensor& y) {
  const auto call = aligned(given);
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto shape = shape_of(call);
  const auto table = table_of(call.sequences, call.x.device());
  const auto layout = table->layout(walks(shape));
  if (fits_tensor_cores(call)) {
    const auto saved = scratch(cuda::scan_saved_bytes(shape, layout), call.x);
    const auto work = scratch(cuda::scan_forward_bytes(shape, layout), call.x);
    check(cuda::scan_forward(shape, layout, inputs_of<cuda::ScanInputs, B16>(call), raw(saved),
                             raw(work), data<B16>(y), y.stride(0), stream(), observer_of(call)),
          "scan");
    return {saved};
  }
  const auto saved = scratch(cuda::plain_scan_saved_bytes(shape, layout), call.x);
  const auto work = scratch(cuda::plain_scan_forward_bytes(shape, layout), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::plain_scan_forward<S>(shape, layout, inputs_of<cuda::PlainScanInputs<S>, S>(call),
                                      raw(saved), raw(work), data<S>(y), y.stride(0), stream()),
          "scan");
  });
  return {saved};
}

void scan_backward(const ScanCall& given, const std::vector<Tensor>& kept, const Tensor& gradient,
                   const ScanGradients& g) {
  const auto call = aligned(given);
  const auto dy = aligned_rows(gradient);
  const auto& saved = kept[0];
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto shape = shape_of(call);
  const auto table = table_of(call.sequences, call.x.device());
  const auto layout = table->layout(walks(shape));
  if (fits_tensor_cores(call)) {
    const auto work = scratch(cuda::scan_backward_bytes(shape, layout), call.x);
    check(
        cuda::scan_backward(shape, layout, inputs_of<cuda::ScanInputs, B16>(call), raw(saved),
                            raw(work), data<B16>(dy), dy.stride(0),
                            gradients_of<cuda::ScanGradients, B16>(g), stream(), observer_of(call)),
        "scan");
    return;
  }
  const auto work = scratch(cuda::plain_scan_backward_bytes(shape, layout), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::plain_scan_backward<S>(shape, layout, inputs_of<cuda::PlainScanInputs<S>, S>(call),
                                       raw(saved), raw(work), data<S>(dy), dy.stride(0),
                                       gradients_of<cuda::PlainScanGradients<S>, S>(g), stream()),
          "scan");
  });
}

}  // namespace hydramix::on_cuda
