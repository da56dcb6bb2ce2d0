// SPDX-License-Identifier: Apache-2.0
#include "ops/selective_scan.h"

#include <cmath>

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The arguments of a call that are not tensors.
struct SelectivePlan {
  Sequences sequences;
  int64_t tile;
  double dt_low, dt_high;
};

// in: x, dt, A, b, c, D, bias. An autograd function accepts no undefined tensor: a missing bias is
// an empty tensor.
SelectiveScanCall selective_call(const variable_list& in, const SelectivePlan& plan) {
  return {in[0],
          {in[1], in[2], in[3], in[4], in[5], in[6].numel() > 0 ? in[6] : Tensor(), plan.dt_low,
           plan.dt_high},
          plan.sequences,
          plan.tile};
}

class SelectiveScanFunction : public torch::autograd::Function<SelectiveScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const SelectivePlan& plan, const Tensor& x,
                        const Tensor& dt, const Tensor& A, const Tensor& b, const Tensor& c,
                        const Tensor& D, const Tensor& bias) {
    variable_list in{x, dt, A, b, c, D, bias};
    const auto y = torch::empty(x.sizes(), x.options());
    in.push_back(HYDRAMIX_ON_BACKEND(x, selective_scan_forward, selective_call(in, plan), y,
                                     /*gradients=*/true));
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("selective scan");
    const auto in = ctx->get_saved_variables();
    const auto call = selective_call(in, held<SelectivePlan>(ctx->saved_data["plan"]));
    const auto dx = torch::empty(call.x.sizes(), call.x.options());
    const auto d =
        HYDRAMIX_ON_BACKEND(dx, selective_scan_backward, call, in[7], packed_rows(outputs[0]), dx);
    return {Tensor(), dx, d.dt, d.A, d.b, d.c, d.D, d.bias};
  }
};

void check_selective(const Tensor& x, const SelectiveScanParams& p, const Sequences& sequences,
                     int64_t tile) {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 2 && x.size(1) >= 1,
                 "selective scan: x must be (n, C); got ",
                 x.defined() ? concat("shape ", x.sizes()) : "an undefined tensor", ".");
  const auto arithmetic = x.scalar_type() == torch::kBFloat16 ? torch::kFloat32 : x.scalar_type();
  HYDRAMIX_CHECK(arithmetic == torch::kFloat32 || arithmetic == torch::kFloat64,
                 "selective scan: x must be float32, float64 or bfloat16; got ", x.scalar_type(),
                 ". Convert it first.");
  HYDRAMIX_CHECK(x.scalar_type() == arithmetic || backend_of(x) == Backend::kCuda,
                 "selective scan: x is bfloat16 on ", x.device(),
                 ", which has no kernels for it; expected float32 or float64. Convert it first.");
  HYDRAMIX_CHECK(tile >= 1, "selective scan: tile must be at least 1; got ", tile, ".");
  HYDRAMIX_CHECK(p.A.defined() && p.A.dim() == 2 && p.A.size(1) >= 1,
                 "selective scan: A must be (C, N); got ",
                 p.A.defined() ? concat("shape ", p.A.sizes()) : "an undefined tensor", ".");
  const int64_t n = x.size(0), C = x.size(1), N = p.A.size(1);
  const auto check = [&](const char* name, const Tensor& t, const std::vector<int64_t>& shape,
                         torch::ScalarType type) {
    HYDRAMIX_CHECK(
        t.defined() && t.sizes() == shape && t.scalar_type() == type && t.device() == x.device(),
        "selective scan: ", name, " must be ", type, " of shape ", torch::IntArrayRef(shape),
        " on ", x.device(), "; got ",
        t.defined() ? concat(t.scalar_type(), " of shape ", t.sizes(), " on ", t.device())
                    : "an undefined tensor",
        ".");
  };
  check("dt", p.dt, {n, C}, x.scalar_type());
  check("A", p.A, {C, N}, arithmetic);
  check("b", p.b, {n, N}, x.scalar_type());
  check("c", p.c, {n, N}, x.scalar_type());
  check("D", p.D, {C}, arithmetic);
  if (p.bias.defined()) check("bias", p.bias, {C}, arithmetic);
  check_offsets("selective scan", sequences.offsets(), n);
}

// One chunk of T places: its output (T, C) and the state (C, N) after it. `first` (T, 1, 1) marks
// first tokens of sequences, where the state before is forgotten.
struct SelectiveChunk {
  Tensor y, h;
};
SelectiveChunk selective_chunk(const Tensor& h, const Tensor& x, const SelectiveScanParams& p,
                               const Tensor& first) {
  auto decay = (p.dt.unsqueeze(-1) * p.A).exp().masked_fill(first, 0);  // (T, C, N)
  auto state = (p.dt * x).unsqueeze(-1) * p.b.unsqueeze(1);             // (T, C, N)
  state = torch::cat(
      {state.narrow(0, 0, 1) + decay.narrow(0, 0, 1) * h, state.narrow(0, 1, state.size(0) - 1)});
  // After the step of s places each state covers the 2 s places up to its own.
  for (int64_t s = 1; s < x.size(0); s *= 2) {
    const int64_t rest = x.size(0) - s;
    const auto later = decay.narrow(0, s, rest);
    state = torch::cat(
        {state.narrow(0, 0, s), state.narrow(0, s, rest) + later * state.narrow(0, 0, rest)});
    decay = torch::cat({decay.narrow(0, 0, s), later * decay.narrow(0, 0, rest)});
  }
  return {(state * p.c.unsqueeze(1)).sum(-1) + p.D * x, state[-1]};
}

struct SelectiveChunkPlan {
  Tensor first;  // (n, 1, 1) bool
  int64_t chunk;
};

class SelectiveChunks : public torch::autograd::Function<SelectiveChunks> {
 public:
  static Tensor forward(AutogradContext* ctx, const SelectiveChunkPlan& plan, const Tensor& x,
                        const Tensor& dt, const Tensor& A, const Tensor& b, const Tensor& c,
                        const Tensor& D) {
    variable_list in{x, dt, A, b, c, D};
    std::vector<Tensor> y{x.narrow(0, 0, 0)}, states;
    auto h = x.new_zeros(A.sizes());
    for (int64_t begin = 0; begin < x.size(0); begin += plan.chunk) {
      states.push_back(h);
      const auto part = of_chunk(in, plan, begin);
      const auto out = selective_chunk(h, part[0], params_of(part), first_of(plan, begin));
      y.push_back(out.y);
      h = out.h;
    }
    in.push_back(states.empty() ? h.unsqueeze(0) : torch::stack(states));
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return torch::cat(y);
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("selective scan");
    auto in = ctx->get_saved_variables();
    const auto states = in.back();
    in.pop_back();
    const auto& plan = held<SelectiveChunkPlan>(ctx->saved_data["plan"]);
    const int64_t n = in[0].size(0);
    variable_list gradients{Tensor()};
    for (const auto& t : in) gradients.push_back(torch::zeros_like(t));
    auto dh = torch::zeros_like(in[2]);
    for (int64_t i = (n + plan.chunk - 1) / plan.chunk - 1; i >= 0; --i) {
      const int64_t begin = i * plan.chunk, rows = std::min(plan.chunk, n - begin);
      const torch::AutoGradMode with_gradients(true);
      const auto h = states[i].detach().requires_grad_();
      variable_list part;
      for (const auto& t : of_chunk(in, plan, begin)) part.push_back(t.detach().requires_grad_());
      const auto out = selective_chunk(h, part[0], params_of(part), first_of(plan, begin));
      variable_list inputs = part;
      inputs.push_back(h);
      const auto d =
          torch::autograd::grad({out.y, out.h}, inputs, {outputs[0].narrow(0, begin, rows), dh});
      for (std::size_t j = 0; j < part.size(); ++j)
        (is_per_token(j) ? gradients[j + 1].narrow(0, begin, rows) : gradients[j + 1]).add_(d[j]);
      dh = d.back();
    }
    return gradients;
  }

 private:
  static bool is_per_token(std::size_t j) { return j != 2 && j != 5; }  // A and D are not
  static variable_list of_chunk(const variable_list& in, const SelectiveChunkPlan& plan,
                                int64_t begin) {
    const int64_t rows = std::min(plan.chunk, in[0].size(0) - begin);
    variable_list part;
    for (std::size_t j = 0; j < 6; ++j)
      part.push_back(is_per_token(j) ? in[j].narrow(0, begin, rows) : in[j]);
    return part;
  }
  static SelectiveScanParams params_of(const variable_list& part) {
    return {part[1], part[2], part[3], part[4], part[5]};
  }
  static Tensor first_of(const SelectiveChunkPlan& plan, int64_t begin) {
    return plan.first.narrow(0, begin, std::min(plan.chunk, plan.first.size(0) - begin));
  }
};

// The same call with the step in place of dt, bias and limits.
SelectiveScanParams with_step(const SelectiveScanParams& p) {
  if (!p.bias.defined()) return p;
  auto dt = torch::softplus(p.dt + p.bias);
  if (p.dt_low > 0 || std::isfinite(p.dt_high)) dt = dt.clamp(p.dt_low, p.dt_high);
  return {dt, p.A, p.b, p.c, p.D};
}

}  // namespace

Tensor selective_scan(const Tensor& x, const SelectiveScanParams& given, const Sequences& sequences,
                      int64_t tile) {
  check_selective(x, given, sequences, tile);
  const bool by_kernel =
      backend_of(x) == Backend::kCuda && on_cuda::selective_scan_fits(x, given.A.size(1));
  if (!x.is_cpu() && !by_kernel) {
    const auto type = given.A.scalar_type();
    const auto wide = [&](const Tensor& t) { return t.to(type); };
    auto p = given;
    p.dt = wide(p.dt), p.b = wide(p.b), p.c = wide(p.c);
    return selective_scan_by_doubling(wide(x), with_step(p), sequences).to(x.scalar_type());
  }
  const auto p = by_kernel ? given : with_step(given);
  const variable_list in{packed_rows(x),
                         packed_rows(p.dt),
                         p.A.contiguous(),
                         packed_rows(p.b),
                         packed_rows(p.c),
                         p.D.contiguous(),
                         p.bias.defined() ? p.bias.contiguous() : p.D.new_empty({0})};
  const SelectivePlan plan{sequences, tile, p.dt_low, p.dt_high};
  if (wants_gradient(in))
    return SelectiveScanFunction::apply(plan, in[0], in[1], in[2], in[3], in[4], in[5], in[6]);
  const auto y = torch::empty(x.sizes(), x.options());
  HYDRAMIX_ON_BACKEND(y, selective_scan_forward, selective_call(in, plan), y, /*gradients=*/false);
  return y;
}

Tensor selective_scan_by_doubling(const Tensor& x, const SelectiveScanParams& p,
                                  const Sequences& sequences, int64_t chunk) {
  const auto first = (sequences.place_of_tokens(x.device()) == 0).view({-1, 1, 1});
  return SelectiveChunks::apply(SelectiveChunkPlan{first, chunk}, x, p.dt, p.A, p.b, p.c, p.D);
}

}  // namespace hydramix
