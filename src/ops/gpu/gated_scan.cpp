// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/gated_scan.h"

#include "kernels/cuda/scan.h"
#include "ops/gpu/conv.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/norm.h"
#include "ops/gpu/rounded_weights.h"
#include "ops/gpu/scan.h"
#include "ops/gpu/sums.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Kept {
  GatedScanShape shape;
  std::shared_ptr<const TokenTable> table;

  int64_t inner() const { return shape.H * shape.P; }
  int64_t convolved() const { return inner() + 4 * shape.G * shape.N; }
  ConvSettings conv() const { return {table, shape.centre, convolved()}; }
};

// The parts of w, or of its gradient.
struct Columns {
  Tensor z, conv, dt[2];
  Columns(const Tensor& w, const Kept& k)
      : z(w.narrow(1, 0, k.inner())),
        conv(w.narrow(1, k.inner(), k.convolved())),
        dt{w.narrow(1, k.inner() + k.convolved(), k.shape.H),
           w.narrow(1, k.inner() + k.convolved() + k.shape.H, k.shape.H)} {}
};

// The parts of what is convolved, or of its gradient.
struct Convolved {
  Tensor flat, x, b[2], c[2];
  Convolved(const Tensor& t, const Kept& k) : flat(t.narrow(1, 0, k.inner())) {
    const auto& s = k.shape;
    x = flat.unflatten(1, std::vector<int64_t>{s.H, s.P});
    const auto group = [&](int64_t i) {
      return t.narrow(1, k.inner() + i * s.G * s.N, s.G * s.N)
          .unflatten(1, std::vector<int64_t>{s.G, s.N});
    };
    b[0] = group(0), c[0] = group(1), b[1] = group(2), c[1] = group(3);
  }
};

ScanCall call_of(const Kept& k, const Columns& w, const Convolved& v, const Tensor& delta,
                 const GatedScanWeights& weights) {
  ScanCall call;
  call.x = v.x;
  for (const int d : {0, 1}) call.dt[d] = w.dt[d], call.b[d] = v.b[d], call.c[d] = v.c[d];
  call.dt_bias = weights.dt_bias, call.A = weights.A, call.diagonal = weights.D;
  call.delta = delta;
  call.settings = k.shape.scan;
  call.table = k.table;
  return call;
}

// What a backward pass needs besides w.
struct Results {
  Tensor out, y, delta, saved;
};

Results run(const Kept& k, const Tensor& w, const GatedScanWeights& weights, bool gradients) {
  const Columns parts(w, k);
  const auto convolved = torch::empty({w.size(0), k.convolved()}, w.options());
  conv_forward(k.conv(), parts.conv, weights.conv_weight, weights.conv_bias, convolved);
  const Convolved v(convolved, k);
  Results r;
  r.delta = torch::mm(v.flat, rounded(weights.fc_D).t());  // (n, H)
  r.y = torch::empty({w.size(0), k.shape.H, k.shape.P}, w.options());
  auto call = call_of(k, parts, v, r.delta, weights);
  call.gradients = gradients;
  r.saved = scan_forward(call, r.y);
  r.out = torch::empty({w.size(0), k.inner()}, w.options());
  gated_norm_forward(r.y.flatten(1), parts.z, weights.norm, k.shape.eps, r.out);
  return r;
}

GatedScanWeights weights_of(const variable_list& in) {
  return {in[1], in[2], in[3], in[4], in[5], in[6], in[7]};
}

class GatedScanFunction : public torch::autograd::Function<GatedScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Kept& kept, const Tensor& w,
                        const Tensor& conv_weight, const Tensor& conv_bias, const Tensor& dt_bias,
                        const Tensor& A, const Tensor& D, const Tensor& fc_D, const Tensor& norm) {
    variable_list in{w, conv_weight, conv_bias, dt_bias, A, D, fc_D, norm};
    const auto r = run(kept, w, weights_of(in), /*gradients=*/true);
    in.insert(in.end(), {r.y, r.delta, r.saved});
    ctx->save_for_backward(in);
    ctx->saved_data["kept"] = hold(kept);
    return r.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("hydra");
    const auto in = ctx->get_saved_variables();
    const auto& k = held<Kept>(ctx->saved_data["kept"]);
    const auto weights = weights_of(in);
    const auto &w = in[0], &y = in[8], &delta = in[9], &saved = in[10];
    const int64_t n = w.size(0);
    const auto dw = torch::empty(w.sizes(), w.options());
    const Columns parts(w, k), dparts(dw, k);

    const auto dy = torch::empty({n, k.shape.H, k.shape.P}, w.options());
    const auto dnorm = gated_norm_backward(y.flatten(1), parts.z, weights.norm, k.shape.eps,
                                           aligned_rows(outputs[0]), dy.flatten(1), dparts.z);

    const auto convolved = torch::empty({n, k.convolved()}, w.options());
    conv_forward(k.conv(), parts.conv, weights.conv_weight, weights.conv_bias, convolved);
    const auto dconvolved = torch::empty({n, k.convolved()}, w.options());
    const Convolved v(convolved, k), dv(dconvolved, k);
    ScanGradients g;
    g.x = dv.x;
    for (const int d : {0, 1}) g.dt[d] = dparts.dt[d], g.b[d] = dv.b[d], g.c[d] = dv.c[d];
    const auto like = [](const Tensor& t) { return torch::empty(t.sizes(), t.options()); };
    g.delta = like(delta);
    g.dt_bias = like(weights.dt_bias), g.A = like(weights.A), g.diagonal = like(weights.D);
    scan_backward(call_of(k, parts, v, delta, weights), saved, dy, g);
    // delta = D + fc_D x
    const auto dfc_D = product_in_float(g.delta.t(), v.flat);
    auto dx = dv.flat;
    dx.addmm_(g.delta, rounded(weights.fc_D));
    const auto dconv = conv_backward(k.conv(), parts.conv, weights.conv_weight, weights.conv_bias,
                                     dconvolved, dparts.conv);
    return {Tensor(),  dw,  dconv.first, weights.conv_bias.numel() > 0 ? dconv.second : Tensor(),
            g.dt_bias, g.A, g.diagonal,  dfc_D,
            dnorm};
  }
};

}  // namespace

bool gated_scan_takes(const Tensor& w, const GatedScanShape& s) {
  const cuda::ScanShape shape{static_cast<int>(s.H),
                              static_cast<int>(s.P),
                              static_cast<int>(s.G),
                              static_cast<int>(s.N),
                              static_cast<int>(s.scan.shift),
                              {true, true},
                              0,
                              0,
                              false,
                              false};
  // Rows and every part of them begin at a multiple of 16 bytes.
  if (!w.is_cuda() || w.scalar_type() != torch::kBFloat16 || w.size(1) % 8 != 0) return false;
  const c10::cuda::CUDAGuard guard(w.device());
  return cuda::scan_fits(shape, torch::GradMode::is_enabled());
}

Tensor gated_scan(const Tensor& w, const GatedScanWeights& weights, const GatedScanShape& shape,
                  const std::vector<int64_t>& offsets) {
  const auto rows = aligned_rows(w);
  const c10::cuda::CUDAGuard guard(w.device());
  const Kept kept{shape, token_table(offsets, w.device())};
  GatedScanWeights all = weights;
  // An autograd function takes no undefined tensors: a bias that is not there is empty.
  if (!all.conv_bias.defined()) all.conv_bias = torch::empty({0}, weights.D.options());
  for (auto* t : {&all.conv_weight, &all.conv_bias, &all.dt_bias, &all.A, &all.D, &all.norm})
    *t = t->contiguous();
  if (!wants_gradient(
          {rows, all.conv_weight, all.conv_bias, all.dt_bias, all.A, all.D, all.fc_D, all.norm}))
    return run(kept, rows, all, /*gradients=*/false).out;
  return GatedScanFunction::apply(kept, rows, all.conv_weight, all.conv_bias, all.dt_bias, all.A,
                                  all.D, all.fc_D, all.norm);
}

}  // namespace hydramix::gpu
