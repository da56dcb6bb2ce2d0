// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "kernels/cuda/head_scan.h"
#include "kernels/cuda/plain_scan.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {
namespace {

using torch::Tensor;
using B16 = __nv_bfloat16;

cuda::ScanShape shape_of(const ScanCall& call) {
  const Tensor& b = call.direction[call.direction[0].b.defined() ? 0 : 1].b;
  cuda::ScanShape s{};
  s.H = call.x.size(1), s.P = call.x.size(2);
  s.G = b.size(1), s.N = b.size(2);
  s.shift = call.settings.shift;
  for (const int d : {0, 1}) s.on[d] = call.direction[d].dt.defined();
  s.dt_low = call.settings.dt_low, s.dt_high = call.settings.dt_high;
  return s;
}

// Whether the kernels for tensor cores support the call. The plain ones support any.
bool fits_tensor_cores(const ScanCall& call) {
  return call.x.scalar_type() == torch::kBFloat16 &&
         cuda::scan_fits(shape_of(call), call.gradients);
}

// Whether the kernels for heads that share nothing support it. They compute no gradients of decays.
bool fits_heads(const ScanCall& call) {
  return call.x.scalar_type() == torch::kBFloat16 && !call.delta.defined() &&
         !(call.gradients && call.decay_gradients) && cuda::head_scan_fits(shape_of(call));
}

cuda::PassObserver observer_of(const ScanCall& call) {
  if (!call.passed) return {};
  return {[](void* context, const char* pass) {
            (*static_cast<const std::function<void(const char*)>*>(context))(pass);
          },
          const_cast<std::function<void(const char*)>*>(&call.passed)};
}

// Parts of heads and directions, which run at the same time.
int walks(const cuda::ScanShape& s) {
  return static_cast<int>((s.on[0] + s.on[1]) * s.H * s.P / (s.P % 64 == 0 ? 64 : 32));
}

float* floats(const Tensor& t) { return t.defined() ? t.data_ptr<float>() : nullptr; }
void* raw(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }
bool is_float(const Tensor& t) { return t.defined() && t.scalar_type() == torch::kFloat32; }

template <typename S>
cuda::ScanInputs<S> inputs_of(const ScanCall& call) {
  cuda::ScanInputs<S> in;
  in.x = rows_of<const S>(call.x);
  for (const int d : {0, 1}) {
    const auto& [dt, b, c] = call.direction[d];
    in.direction[d] = {rows_of<const void>(dt), rows_of<const S>(b), rows_of<const S>(c)};
  }
  in.dt_bias = floats(call.dt_bias);
  in.A = floats(call.A);
  in.diagonal = floats(call.diagonal);
  in.delta = rows_of<const void>(call.delta);
  in.dt_is_float = is_float(call.direction[call.direction[0].dt.defined() ? 0 : 1].dt);
  in.delta_is_float = is_float(call.delta);
  return in;
}

template <typename S>
cuda::ScanGradients<S> gradients_of(const ScanGradients& g) {
  cuda::ScanGradients<S> out;
  out.x = rows_of<S>(g.x);
  for (const int d : {0, 1}) {
    const auto& [dt, b, c] = g.direction[d];
    out.direction[d] = {rows_of<void>(dt), rows_of<S>(b), rows_of<S>(c)};
  }
  out.dt_bias = floats(g.dt_bias);
  out.A = floats(g.A);
  out.diagonal = floats(g.diagonal);
  out.delta = rows_of<void>(g.delta);
  return out;
}

// The call with rows aligned to 16 bytes, as the kernels read them.
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
  if (fits_heads(call)) {
    const auto saved = scratch(cuda::head_scan_saved_bytes(shape, layout), call.x);
    const auto work = scratch(cuda::head_scan_forward_bytes(shape, layout), call.x);
    const cuda::ScanForward<B16> p{shape, inputs_of<B16>(call), rows_of<B16>(y)};
    check(cuda::head_scan_forward(p, layout, {raw(saved), raw(work)}, call.gradients, stream(),
                                  observer_of(call)),
          "scan");
    return {saved};
  }
  if (fits_tensor_cores(call)) {
    const auto saved = scratch(cuda::scan_saved_bytes(shape, layout), call.x);
    const auto work = scratch(cuda::scan_forward_bytes(shape, layout), call.x);
    const cuda::ScanForward<B16> p{shape, inputs_of<B16>(call), rows_of<B16>(y)};
    check(cuda::scan_forward(p, layout, {raw(saved), raw(work)}, stream(), observer_of(call)),
          "scan");
    return {saved};
  }
  const auto saved = scratch(cuda::plain_scan_saved_bytes(shape, layout), call.x);
  const auto work = scratch(cuda::plain_scan_forward_bytes(shape, layout), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ScanForward<S> p{shape, inputs_of<S>(call), rows_of<S>(y)};
    check(cuda::plain_scan_forward<S>(p, layout, {raw(saved), raw(work)}, stream()), "scan");
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
  if (fits_heads(call)) {
    const auto work = scratch(cuda::head_scan_backward_bytes(shape, layout), call.x);
    const cuda::ScanBackward<B16> p{shape, inputs_of<B16>(call), rows_of<const B16>(dy),
                                    gradients_of<B16>(g)};
    check(cuda::head_scan_backward(p, layout, {raw(saved), raw(work)}, stream(), observer_of(call)),
          "scan");
    return;
  }
  if (fits_tensor_cores(call)) {
    const auto work = scratch(cuda::scan_backward_bytes(shape, layout), call.x);
    const cuda::ScanBackward<B16> p{shape, inputs_of<B16>(call), rows_of<const B16>(dy),
                                    gradients_of<B16>(g)};
    check(cuda::scan_backward(p, layout, {raw(saved), raw(work)}, stream(), observer_of(call)),
          "scan");
    return;
  }
  const auto work = scratch(cuda::plain_scan_backward_bytes(shape, layout), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ScanBackward<S> p{shape, inputs_of<S>(call), rows_of<const S>(dy),
                                  gradients_of<S>(g)};
    check(cuda::plain_scan_backward<S>(p, layout, {raw(saved), raw(work)}, stream()), "scan");
  });
}

}  // namespace hydramix::on_cuda
