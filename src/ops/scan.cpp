// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "hydramix/error.h"
#include "ops/arithmetic.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Tensors in the order of the autograd function's inputs.
enum Input { kX, kDtF, kBF, kCF, kDtB, kBB, kCB, kDtBias, kA, kDelta, kInputs };

// The arguments of a call that are not tensors.
struct ScanPlan {
  ScanSettings settings;
  Sequences sequences;
  bool decay_gradients;  // as in ScanCall
};

ScanCall call_of(const variable_list& in, const ScanPlan& plan, bool gradients) {
  // The tensors of a missing direction are empty and one-dimensional.
  const auto given = [](const Tensor& t) { return t.dim() > 1 ? t : Tensor(); };
  ScanCall call{in[kX],
                {{given(in[kDtF]), given(in[kBF]), given(in[kCF])},
                 {given(in[kDtB]), given(in[kBB]), given(in[kCB])}},
                in[kDtBias],
                in[kA],
                {},
                {},
                plan.settings,
                plan.sequences,
                gradients,
                plan.decay_gradients};
  (in[kDelta].dim() == 1 ? call.diagonal : call.delta) = in[kDelta];
  return call;
}

class ScanFunction : public torch::autograd::Function<ScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const ScanPlan& plan, const Tensor& x,
                        const Tensor& dt_f, const Tensor& b_f, const Tensor& c_f,
                        const Tensor& dt_b, const Tensor& b_b, const Tensor& c_b,
                        const Tensor& dt_bias, const Tensor& A, const Tensor& delta) {
    variable_list in{x, dt_f, b_f, c_f, dt_b, b_b, c_b, dt_bias, A, delta};
    auto y = torch::empty(x.sizes(), x.options());
    const auto saved =
        HYDRAMIX_ON_BACKEND(x, scan_forward, call_of(in, plan, /*gradients=*/true), y);
    in.insert(in.end(), saved.begin(), saved.end());
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("scan");
    const auto in = ctx->get_saved_variables();
    const auto call = call_of(in, held<ScanPlan>(ctx->saved_data["plan"]), /*gradients=*/true);
    const auto like = [](const Tensor& t) {
      return t.defined() ? torch::empty(t.sizes(), t.options()) : Tensor();
    };
    const auto like_if_wanted = [&](const Tensor& t) {
      return call.decay_gradients ? like(t) : Tensor();
    };
    ScanGradients g;
    g.x = like(call.x);
    for (const int d : {0, 1}) {
      const auto& read = call.direction[d];
      g.direction[d] = {like_if_wanted(read.dt), like(read.b), like(read.c)};
    }
    g.dt_bias = like_if_wanted(call.dt_bias), g.A = like_if_wanted(call.A);
    g.diagonal = like_if_wanted(call.diagonal), g.delta = like_if_wanted(call.delta);
    const std::vector<Tensor> saved(in.begin() + kInputs, in.end());
    HYDRAMIX_ON_BACKEND(call.x, scan_backward, call, saved, packed_rows(outputs[0]), g);
    const auto &f = g.direction[0], &b = g.direction[1];
    return {Tensor(),
            g.x,
            f.dt,
            f.b,
            f.c,
            b.dt,
            b.b,
            b.c,
            g.dt_bias,
            g.A,
            call.diagonal.defined() ? g.diagonal : g.delta};
  }
};

void check_like(const Tensor& t, const std::vector<int64_t>& shape, torch::ScalarType type,
                torch::Device device, const char* name) {
  HYDRAMIX_CHECK(
      t.defined() && t.sizes() == shape && t.scalar_type() == type && t.device() == device,
      "scan: ", name, " must be ", type, " of shape ", torch::IntArrayRef(shape), " on ", device,
      "; got ",
      t.defined() ? concat(t.scalar_type(), " of shape ", t.sizes(), " on ", t.device())
                  : "an undefined tensor",
      ".");
}

}  // namespace

Tensor packed_scan(const Tensor& x, const ScanDirection& forward, const ScanDirection& backward,
                   const Tensor& dt_bias, const Tensor& A, const Tensor& delta,
                   const Sequences& sequences, const ScanSettings& settings) {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 3, "scan: x must be (n, H, P); got ",
                 x.defined() ? concat("shape ", x.sizes()) : "an undefined tensor", ".");
  const bool on[2] = {forward.dt.defined(), backward.dt.defined()};
  HYDRAMIX_CHECK(on[0] || on[1], "scan: neither direction is given. Give one, or both.");
  const auto& one = on[0] ? forward : backward;
  HYDRAMIX_CHECK(one.b.defined() && one.b.dim() == 3, "scan: b must be (n, G, N); got ",
                 one.b.defined() ? concat("shape ", one.b.sizes()) : "an undefined tensor", ".");
  HYDRAMIX_CHECK(settings.tile >= 1 && (settings.shift == 0 || settings.shift == 1),
                 "scan: tile must be at least 1 and shift 0 or 1; got tile ", settings.tile,
                 " and shift ", settings.shift, ".");
  const int64_t n = x.size(0), H = x.size(1), P = x.size(2), G = one.b.size(1), N = one.b.size(2);
  HYDRAMIX_CHECK(G >= 1 && H % G == 0 && P >= 1 && N >= 1, "scan: ", H, " heads of ", P,
                 " channels cannot share ", G, " groups of ", N,
                 " states. Choose groups that divide the heads, and no empty dimension.");
  const auto arithmetic = arithmetic_type("scan", "x", x), stored = x.scalar_type();
  const auto device = x.device();
  HYDRAMIX_CHECK(backend_of(x) != Backend::kLibTorch,
                 "scan: takes tensors on the CPU, and float32 or bfloat16 on a GPU",
                 has_cuda_kernels() ? "" : " where the library was built with a CUDA compiler",
                 "; got ", stored, " on ", device, ". Use mix() of a mixer, which takes any.");
  for (const int d : {0, 1}) {
    if (!on[d]) continue;
    const auto& direction = d == 0 ? forward : backward;
    check_like(direction.dt, {n, H}, arithmetic, device, "dt");
    check_like(direction.b, {n, G, N}, stored, device, "b");
    check_like(direction.c, {n, G, N}, stored, device, "c");
  }
  check_like(dt_bias, {H}, arithmetic, device, "dt_bias");
  check_like(A, {H}, arithmetic, device, "A");
  if (delta.defined() && delta.dim() == 1)
    check_like(delta, {H}, arithmetic, device, "delta");
  else
    check_like(delta, {n, H}, arithmetic, device, "delta");
  check_offsets("scan", sequences.offsets(), n);

  // An autograd function accepts no undefined tensor: a missing direction has empty tensors.
  const auto rows = [](const Tensor& t) {
    return t.defined() ? packed_rows(t) : torch::empty({0});
  };
  // Of a diagonal every entry is a row.
  const auto packed_delta = delta.dim() == 1 ? delta.contiguous() : rows(delta);
  const variable_list in{
      rows(x),          rows(forward.dt), rows(forward.b),      rows(forward.c), rows(backward.dt),
      rows(backward.b), rows(backward.c), dt_bias.contiguous(), A.contiguous(),  packed_delta};
  const bool decay_gradients =
      wants_gradient({in[kDtF], in[kDtB], in[kDtBias], in[kA], in[kDelta]});
  const ScanPlan plan{settings, sequences, decay_gradients};
  if (wants_gradient(in))
    return ScanFunction::apply(plan, in[kX], in[kDtF], in[kBF], in[kCF], in[kDtB], in[kBB], in[kCB],
                               in[kDtBias], in[kA], in[kDelta]);
  auto y = torch::empty(x.sizes(), x.options());
  HYDRAMIX_ON_BACKEND(x, scan_forward, call_of(in, plan, /*gradients=*/false), y);
  return y;
}

}  // namespace hydramix
