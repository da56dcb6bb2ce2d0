// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/scan.h"

#include "kernels/cuda/plain_scan.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using B16 = __nv_bfloat16;

cuda::ScanShape shape_of(const ScanCall& call) {
  const Tensor& b = call.b[0].defined() ? call.b[0] : call.b[1];
  const Tensor& dt = call.dt[0].defined() ? call.dt[0] : call.dt[1];
  cuda::ScanShape s{};
  s.H = static_cast<int>(call.x.size(1));
  s.P = static_cast<int>(call.x.size(2));
  s.G = static_cast<int>(b.size(1));
  s.N = static_cast<int>(b.size(2));
  s.shift = static_cast<int>(call.settings.shift);
  for (const int d : {0, 1}) s.on[d] = call.dt[d].defined();
  s.dt_low = static_cast<float>(call.settings.dt_low);
  s.dt_high = static_cast<float>(call.settings.dt_high);
  s.dt_is_float = dt.scalar_type() == torch::kFloat32;
  s.delta_is_float = call.delta.defined() && call.delta.scalar_type() == torch::kFloat32;
  return s;
}

// Whether tensor cores do it; otherwise it is done without them.
bool scan_is_quick(const ScanCall& call) {
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

// Parts of heads and directions.
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
    in.direction[d] = {raw(call.dt[d]),
                       static_cast<S*>(raw(call.b[d])),
                       static_cast<S*>(raw(call.c[d])),
                       row(call.dt[d]),
                       row(call.b[d]),
                       row(call.c[d])};
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
    out.direction[d] = {raw(g.dt[d]),
                        static_cast<S*>(raw(g.b[d])),
                        static_cast<S*>(raw(g.c[d])),
                        row(g.dt[d]),
                        row(g.b[d]),
                        row(g.c[d])};
  out.dt_bias = static_cast<float*>(raw(g.dt_bias));
  out.A = static_cast<float*>(raw(g.A));
  out.diagonal = static_cast<float*>(raw(g.diagonal));
  out.delta = raw(g.delta);
  out.delta_row = row(g.delta);
  return out;
}

// Tensors in the order of the autograd function's inputs.
enum Input { kX, kDtF, kBF, kCF, kDtB, kBB, kCB, kDtBias, kA, kDelta, kInputs };

ScanCall call_of(const variable_list& in, const ScanSettings& settings,
                 std::shared_ptr<const TokenTable> table) {
  // A direction that is not there has no tokens' dimension either.
  const auto given = [](const Tensor& t) { return t.dim() > 1 ? t : Tensor(); };
  ScanCall call;
  call.x = in[kX];
  call.dt[0] = given(in[kDtF]), call.b[0] = given(in[kBF]), call.c[0] = given(in[kCF]);
  call.dt[1] = given(in[kDtB]), call.b[1] = given(in[kBB]), call.c[1] = given(in[kCB]);
  call.dt_bias = in[kDtBias], call.A = in[kA];
  (in[kDelta].dim() == 1 ? call.diagonal : call.delta) = in[kDelta];
  call.settings = settings;
  call.table = std::move(table);
  return call;
}

struct Kept {
  ScanSettings settings;
  std::shared_ptr<const TokenTable> table;
};

class ScanFunction : public torch::autograd::Function<ScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Kept& kept, const Tensor& x, const Tensor& dt_f,
                        const Tensor& b_f, const Tensor& c_f, const Tensor& dt_b, const Tensor& b_b,
                        const Tensor& c_b, const Tensor& dt_bias, const Tensor& A,
                        const Tensor& delta) {
    variable_list in{x, dt_f, b_f, c_f, dt_b, b_b, c_b, dt_bias, A, delta};
    const auto y = torch::empty(x.sizes(), x.options());
    in.push_back(scan_forward(call_of(in, kept.settings, kept.table), y));
    ctx->save_for_backward(in);
    ctx->saved_data["kept"] = hold(kept);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("scan");
    const auto in = ctx->get_saved_variables();
    const auto& kept = held<Kept>(ctx->saved_data["kept"]);
    const auto call = call_of(in, kept.settings, kept.table);
    const auto like = [](const Tensor& t) {
      return t.defined() ? torch::empty(t.sizes(), t.options()) : Tensor();
    };
    ScanGradients g;
    g.x = like(call.x);
    for (const int d : {0, 1})
      g.dt[d] = like(call.dt[d]), g.b[d] = like(call.b[d]), g.c[d] = like(call.c[d]);
    g.dt_bias = like(call.dt_bias), g.A = like(call.A);
    g.diagonal = like(call.diagonal), g.delta = like(call.delta);
    scan_backward(call, in[kInputs], aligned_rows(outputs[0]), g);
    return {Tensor(),
            g.x,
            g.dt[0],
            g.b[0],
            g.c[0],
            g.dt[1],
            g.b[1],
            g.c[1],
            g.dt_bias,
            g.A,
            call.diagonal.defined() ? g.diagonal : g.delta};
  }
};

}  // namespace

Tensor scan_forward(const ScanCall& call, const Tensor& y) {
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto shape = shape_of(call);
  const auto layout = call.table->layout(walks(shape));
  if (scan_is_quick(call)) {
    const auto saved = scratch(cuda::scan_saved_bytes(shape, layout), call.x);
    const auto work = scratch(cuda::scan_forward_bytes(shape, layout), call.x);
    check(cuda::scan_forward(shape, layout, inputs_of<cuda::ScanInputs, B16>(call), raw(saved),
                             raw(work), data<B16>(y), y.stride(0), stream(), observer_of(call)),
          "scan");
    return saved;
  }
  const auto saved = scratch(cuda::plain_scan_saved_bytes(shape, layout), call.x);
  const auto work = scratch(cuda::plain_scan_forward_bytes(shape, layout), call.x);
  dispatch(call.x, [&](auto tag) {
    using S = decltype(tag);
    check(cuda::plain_scan_forward<S>(shape, layout, inputs_of<cuda::PlainScanInputs<S>, S>(call),
                                      raw(saved), raw(work), data<S>(y), y.stride(0), stream()),
          "scan");
    return 0;
  });
  return saved;
}

void scan_backward(const ScanCall& call, const Tensor& saved, const Tensor& dy,
                   const ScanGradients& g) {
  const c10::cuda::CUDAGuard guard(call.x.device());
  const auto shape = shape_of(call);
  const auto layout = call.table->layout(walks(shape));
  if (scan_is_quick(call)) {
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
    return 0;
  });
}

Tensor packed_scan(const Tensor& x, const ScanDirection& forward, const ScanDirection& backward,
                   const Tensor& dt_bias, const Tensor& A, const Tensor& delta,
                   const std::vector<int64_t>& offsets, const ScanSettings& settings) {
  // An autograd function takes no undefined tensors: what is not there is empty.
  const auto given = [&](const Tensor& t) {
    return t.defined() ? aligned_rows(t) : torch::empty({0}, x.options());
  };
  const auto dt = [&](const Tensor& t) {
    return t.defined() ? packed_rows(t) : torch::empty({0}, A.options());
  };
  variable_list in{aligned_rows(x), dt(forward.dt),    given(forward.b),  given(forward.c),
                   dt(backward.dt), given(backward.b), given(backward.c), dt_bias.contiguous(),
                   A.contiguous(),  packed_rows(delta)};
  const Kept kept{settings, token_table(offsets, x.device())};
  if (wants_gradient(in))
    return ScanFunction::apply(kept, in[kX], in[kDtF], in[kBF], in[kCF], in[kDtB], in[kBB], in[kCB],
                               in[kDtBias], in[kA], in[kDelta]);
  const auto y = torch::empty(x.sizes(), x.options());
  auto call = call_of(in, settings, kept.table);
  call.gradients = false;
  scan_forward(call, y);
  return y;
}

}  // namespace hydramix::gpu
