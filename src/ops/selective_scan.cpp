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
  Backend backend;  // not always that of x: kernels support some state sizes only
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

// One chunk of T positions: its output (T, C) and the state (C, N) after it. `first` (T, 1, 1)
// marks first tokens of sequences, where the state before is forgotten.
struct SelectiveChunk {
  Tensor y, h;
};
SelectiveChunk selective_chunk(const Tensor& h, const Tensor& x, const SelectiveScanParams& p,
                               const Tensor& first) {
  auto decay = (p.dt.unsqueeze(-1) * p.A).exp().masked_fill(first, 0);  // (T, C, N)
  auto state = (p.dt * x).unsqueeze(-1) * p.b.unsqueeze(1);             // (T, C, N)
  state = torch::cat(
      {state.narrow(0, 0, 1) + decay.narrow(0, 0, 1) * h, state.narrow(0, 1, state.size(0) - 1)});
  // After the step of s positions each state covers the 2 s positions up to its own.
  for (int64_t s = 1; s < x.size(0); s *= 2) {
    const int64_t rest = x.size(0) - s;
    const auto later = decay.narrow(0, s, rest);
    state = torch::cat(
        {state.narrow(0, 0, s), state.narrow(0, s, rest) + later * state.narrow(0, 0, rest)});
    decay = torch::cat({decay.narrow(0, 0, s), later * decay.narrow(0, 0, rest)});
  }
  return {(state * p.c.unsqueeze(1)).sum(-1) + p.D * x, state[-1]};
}

// The backend of LibTorch's operations: chunk by chunk, with the state carried along.
class SelectiveChunks {
 public:
  explicit SelectiveChunks(const SelectiveScanCall& call)
      : in_{call.x, call.params.dt, call.params.A, call.params.b, call.params.c, call.params.D},
        first_((call.sequences.place_of_tokens(call.x.device()) == 0).view({-1, 1, 1})),
        chunk_(call.tile) {}

  // Fills y. Returns the states that enter the chunks (chunks, C, N), if a backward pass may
  // follow.
  Tensor forward(const Tensor& y, bool gradients) const {
    std::vector<Tensor> states;
    auto h = in_[0].new_zeros(in_[2].sizes());
    for (int64_t begin = 0; begin < y.size(0); begin += chunk_) {
      if (gradients) states.push_back(h);
      const auto out = output(h, inputs_at(begin), begin);
      y.narrow(0, begin, rows_at(begin)).copy_(out.y);
      h = out.h;
    }
    return states.empty() ? Tensor() : torch::stack(states);
  }

  // Fills dx, and computes each chunk again.
  SelectiveScanParams backward(const Tensor& states, const Tensor& dy, const Tensor& dx) const {
    variable_list gradients{dx.zero_()};
    for (std::size_t j = 1; j < in_.size(); ++j) gradients.push_back(torch::zeros_like(in_[j]));
    auto dh = torch::zeros_like(in_[2]);
    for (int64_t i = (dx.size(0) + chunk_ - 1) / chunk_ - 1; i >= 0; --i) {
      const int64_t begin = i * chunk_, rows = rows_at(begin);
      const torch::AutoGradMode with_gradients(true);
      variable_list part;
      for (const auto& t : inputs_at(begin)) part.push_back(t.detach().requires_grad_());
      const auto h = states[i].detach().requires_grad_();
      const auto out = output(h, part, begin);
      variable_list inputs = part;
      inputs.push_back(h);
      const auto d = torch::autograd::grad({out.y, out.h}, inputs, {dy.narrow(0, begin, rows), dh});
      const torch::NoGradGuard no_grad;
      for (std::size_t j = 0; j < part.size(); ++j)
        (is_per_token(j) ? gradients[j].narrow(0, begin, rows) : gradients[j]).add_(d[j]);
      dh = d.back();
    }
    return {gradients[1], gradients[2], gradients[3], gradients[4], gradients[5]};
  }

 private:
  static bool is_per_token(std::size_t j) { return j != 2 && j != 5; }  // A and D are not
  int64_t rows_at(int64_t begin) const { return std::min(chunk_, in_[0].size(0) - begin); }
  variable_list inputs_at(int64_t begin) const {
    variable_list part;
    for (std::size_t j = 0; j < in_.size(); ++j)
      part.push_back(is_per_token(j) ? in_[j].narrow(0, begin, rows_at(begin)) : in_[j]);
    return part;
  }
  SelectiveChunk output(const Tensor& h, const variable_list& part, int64_t begin) const {
    return selective_chunk(h, part[0], {part[1], part[2], part[3], part[4], part[5]},
                           first_.narrow(0, begin, rows_at(begin)));
  }

  variable_list in_;  // x, dt, A, b, c, D
  Tensor first_;      // (n, 1, 1) bool: first tokens of sequences
  int64_t chunk_;
};

Tensor selective_forward(const SelectiveScanCall& call, Backend backend, const Tensor& y,
                         bool gradients) {
  if (backend == Backend::kLibTorch) return SelectiveChunks(call).forward(y, gradients);
  return HYDRAMIX_ON_BACKEND(y, selective_scan_forward, call, y, gradients);
}

SelectiveScanParams selective_backward(const SelectiveScanCall& call, Backend backend,
                                       const Tensor& states, const Tensor& dy, const Tensor& dx) {
  if (backend == Backend::kLibTorch) return SelectiveChunks(call).backward(states, dy, dx);
  return HYDRAMIX_ON_BACKEND(dx, selective_scan_backward, call, states, dy, dx);
}

class SelectiveScanFunction : public torch::autograd::Function<SelectiveScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const SelectivePlan& plan, const Tensor& x,
                        const Tensor& dt, const Tensor& A, const Tensor& b, const Tensor& c,
                        const Tensor& D, const Tensor& bias) {
    variable_list in{x, dt, A, b, c, D, bias};
    auto y = torch::empty(x.sizes(), x.options());
    in.push_back(selective_forward(selective_call(in, plan), plan.backend, y, /*gradients=*/true));
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("selective scan");
    const auto in = ctx->get_saved_variables();
    const auto& plan = held<SelectivePlan>(ctx->saved_data["plan"]);
    const auto call = selective_call(in, plan);
    const auto dx = torch::empty(call.x.sizes(), call.x.options());
    const auto d = selective_backward(call, plan.backend, in[7], packed_rows(outputs[0]), dx);
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

// The same call with the step in place of dt, bias and limits.
SelectiveScanParams with_step(const SelectiveScanParams& p) {
  if (!p.bias.defined()) return p;
  auto dt = torch::softplus(p.dt + p.bias);
  if (p.dt_low > 0 || std::isfinite(p.dt_high)) dt = dt.clamp(p.dt_low, p.dt_high);
  return {dt, p.A, p.b, p.c, p.D};
}

Tensor apply_selective(const Tensor& x, const SelectiveScanParams& p, const SelectivePlan& plan) {
  const variable_list in{packed_rows(x),
                         packed_rows(p.dt),
                         p.A.contiguous(),
                         packed_rows(p.b),
                         packed_rows(p.c),
                         p.D.contiguous(),
                         p.bias.defined() ? p.bias.contiguous() : p.D.new_empty({0})};
  if (wants_gradient(in))
    return SelectiveScanFunction::apply(plan, in[0], in[1], in[2], in[3], in[4], in[5], in[6]);
  auto y = torch::empty(x.sizes(), x.options());
  selective_forward(selective_call(in, plan), plan.backend, y, /*gradients=*/false);
  return y;
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
  return apply_selective(x, p, {sequences, tile, p.dt_low, p.dt_high, backend_of(x)});
}

Tensor selective_scan_by_doubling(const Tensor& x, const SelectiveScanParams& p,
                                  const Sequences& sequences, int64_t chunk) {
  return apply_selective(x, p, {sequences, chunk, p.dt_low, p.dt_high, Backend::kLibTorch});
}

}  // namespace hydramix
