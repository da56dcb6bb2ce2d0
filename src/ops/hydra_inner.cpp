// SPDX-License-Identifier: Apache-2.0
#include "ops/hydra_inner.h"

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/depthwise_conv.h"
#include "ops/kernel_tensors.h"
#include "ops/norm.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The arguments of a call that are not tensors.
struct HydraPlan {
  HydraShape shape;
  Sequences sequences;
  RoundedCopy fc_D_copy;
  bool gradients = true;  // a backward pass may follow
};

// The parts of w, or of its gradient.
struct ProjectedColumns {
  Tensor z, conv, dt[2];
  ProjectedColumns(const Tensor& w, const HydraShape& s)
      : z(w.narrow(1, 0, s.inner())),
        conv(w.narrow(1, s.inner(), s.convolved())),
        dt{w.narrow(1, s.inner() + s.convolved(), s.H),
           w.narrow(1, s.inner() + s.convolved() + s.H, s.H)} {}
};

// The parts of the convolved columns, or of their gradient.
struct ConvolvedColumns {
  Tensor flat, x, b[2], c[2];  // flat (n, H P): x without its head dimension
  ConvolvedColumns(const Tensor& t, const HydraShape& s) : flat(t.narrow(1, 0, s.inner())) {
    x = flat.unflatten(1, std::vector<int64_t>{s.H, s.P});
    const auto group = [&](int64_t i) {
      return t.narrow(1, s.inner() + i * s.G * s.N, s.G * s.N)
          .unflatten(1, std::vector<int64_t>{s.G, s.N});
    };
    b[0] = group(0), c[0] = group(1), b[1] = group(2), c[1] = group(3);
  }
};

ConvCall conv_call(const HydraPlan& plan, const Tensor& columns, const HydraWeights& weights) {
  return {columns,           weights.conv_weight,    weights.conv_bias,
          plan.shape.centre, plan.shape.convolved(), plan.sequences};
}

Tensor convolve_again(const HydraPlan& plan, const Tensor& columns, const HydraWeights& weights) {
  auto convolved = torch::empty(columns.sizes(), columns.options());
  HYDRAMIX_ON_BACKEND(columns, conv_forward, conv_call(plan, columns, weights), convolved);
  return convolved;
}

ScanCall scan_call(const HydraPlan& plan, const ProjectedColumns& w, const ConvolvedColumns& v,
                   const HydraDelta& delta, const HydraWeights& weights) {
  return {v.x,
          {{w.dt[0], v.b[0], v.c[0]}, {w.dt[1], v.b[1], v.c[1]}},
          weights.dt_bias,
          weights.A,
          delta.diagonal,
          delta.delta,
          plan.shape.scan,
          plan.sequences,
          plan.gradients};
}

// The output, and the tensors that the backward pass needs besides w.
struct Results {
  Tensor out, y, convolved;
  HydraDelta delta;
  std::vector<Tensor> saved;  // of the scan
};

Results run(const HydraPlan& plan, const Tensor& w, const HydraWeights& weights) {
  const auto& s = plan.shape;
  const int64_t n = w.size(0);
  const ProjectedColumns parts(w, s);
  Results r;
  r.convolved = torch::empty(parts.conv.sizes(), w.options());
  r.delta = HYDRAMIX_ON_BACKEND(w, hydra_convolve, conv_call(plan, parts.conv, weights), weights,
                                r.convolved);
  const ConvolvedColumns v(r.convolved, s);
  r.y = torch::empty({n, s.H, s.P}, w.options());
  r.saved = HYDRAMIX_ON_BACKEND(w, scan_forward, scan_call(plan, parts, v, r.delta, weights), r.y);
  r.out = torch::empty({n, s.inner()}, w.options());
  const GatedNormCall norm{r.y.flatten(1), parts.z, weights.norm, s.eps};
  HYDRAMIX_ON_BACKEND(w, gated_norm_forward, norm, r.out);
  return r;
}

// Indices of saved tensors: the autograd function's inputs, then those that only the backward pass
// needs.
enum Saved {
  kW,
  kConvWeight,
  kConvBias,
  kDtBias,
  kA,
  kD,
  kFcD,
  kNorm,
  kY,
  kDelta,
  kDiagonal,
  kConvolved,
  kScan
};

HydraWeights weights_of(const variable_list& in, const HydraPlan& plan) {
  return {in[kConvWeight], in[kConvBias], in[kDtBias], in[kA],
          in[kD],          in[kFcD],      in[kNorm],   plan.fc_D_copy};
}

bool keeps_convolved(const Tensor& w) {
  return backend_of(w) == Backend::kCuda ? on_cuda::kKeepsConvolved : on_cpu::kKeepsConvolved;
}

class HydraFunction : public torch::autograd::Function<HydraFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const HydraPlan& plan, const Tensor& w,
                        const Tensor& conv_weight, const Tensor& conv_bias, const Tensor& dt_bias,
                        const Tensor& A, const Tensor& D, const Tensor& fc_D, const Tensor& norm) {
    variable_list in{w, conv_weight, conv_bias, dt_bias, A, D, fc_D, norm};
    const auto r = run(plan, w, weights_of(in, plan));
    in.insert(in.end(),
              {r.y, r.delta.delta, r.delta.diagonal, keeps_convolved(w) ? r.convolved : Tensor()});
    in.insert(in.end(), r.saved.begin(), r.saved.end());
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return r.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("hydra");
    const auto in = ctx->get_saved_variables();
    const auto& plan = held<HydraPlan>(ctx->saved_data["plan"]);
    const auto& s = plan.shape;
    const auto weights = weights_of(in, plan);
    const auto &w = in[kW], &y = in[kY];
    const auto dw = torch::empty(w.sizes(), w.options());
    const ProjectedColumns parts(w, s), dparts(dw, s);

    const GatedNormCall norm{y.flatten(1), parts.z, weights.norm, s.eps};
    // dy shares memory with the gradient of the convolution's input, which is written last.
    const auto dy = dparts.conv.narrow(1, 0, s.inner());
    const auto dnorm =
        HYDRAMIX_ON_BACKEND(w, gated_norm_backward, norm, packed_rows(outputs[0]), dy, dparts.z);

    const auto convolved =
        in[kConvolved].defined() ? in[kConvolved] : convolve_again(plan, parts.conv, weights);
    const auto dconvolved = torch::empty(convolved.sizes(), convolved.options());
    const ConvolvedColumns v(convolved, s), dv(dconvolved, s);
    const HydraDelta delta{in[kDelta], in[kDiagonal]};
    const auto like = [](const Tensor& t) {
      return t.defined() ? torch::empty(t.sizes(), t.options()) : Tensor();
    };
    const ScanGradients g{dv.x,
                          {{dparts.dt[0], dv.b[0], dv.c[0]}, {dparts.dt[1], dv.b[1], dv.c[1]}},
                          like(delta.delta),
                          like(weights.dt_bias),
                          like(weights.A),
                          like(delta.diagonal)};
    const std::vector<Tensor> saved(in.begin() + kScan, in.end());
    HYDRAMIX_ON_BACKEND(w, scan_backward, scan_call(plan, parts, v, delta, weights), saved,
                        dy.unflatten(1, std::vector<int64_t>{s.H, s.P}), g);
    const auto through_delta =
        HYDRAMIX_ON_BACKEND(w, hydra_delta_backward, v.flat, weights, g.delta, g.diagonal, dv.flat);
    const auto conv = HYDRAMIX_ON_BACKEND(w, conv_backward, conv_call(plan, parts.conv, weights),
                                          dconvolved, dparts.conv);
    return {Tensor(),           dw,   conv.weight, conv.bias, g.dt_bias, g.A, through_delta.D,
            through_delta.fc_D, dnorm};
  }
};

}  // namespace

bool hydra_inner_supports(const Tensor& w, const HydraShape& shape) {
  switch (backend_of(w)) {
    case Backend::kCpu:
      return w.scalar_type() != torch::kBFloat16;
    case Backend::kCuda:
      return w.scalar_type() == torch::kBFloat16 && on_cuda::hydra_inner_fits(w, shape);
    default:
      return false;
  }
}

Tensor hydra_inner(const Tensor& w, const HydraWeights& weights, const HydraShape& shape,
                   const Sequences& sequences) {
  HYDRAMIX_CHECK(w.dim() == 2 && w.size(1) == shape.columns(), "hydra: w must be (n, ",
                 shape.columns(), "); got ", w.sizes(), ".");
  check_offsets("hydra", sequences.offsets(), w.size(0));
  const auto rows = packed_rows(w);
  HydraWeights all = weights;
  // An autograd function accepts no undefined tensor: a missing bias is an empty tensor.
  if (!all.conv_bias.defined()) all.conv_bias = torch::empty({0}, weights.D.options());
  for (auto* t : {&all.conv_weight, &all.conv_bias, &all.dt_bias, &all.A, &all.D, &all.norm})
    *t = t->contiguous();
  HydraPlan plan{shape, sequences, weights.fc_D_copy};
  plan.gradients = wants_gradient(
      {rows, all.conv_weight, all.conv_bias, all.dt_bias, all.A, all.D, all.fc_D, all.norm});
  if (!plan.gradients) return run(plan, rows, all).out;
  return HydraFunction::apply(plan, rows, all.conv_weight, all.conv_bias, all.dt_bias, all.A, all.D,
                              all.fc_D, all.norm);
}

}  // namespace hydramix
