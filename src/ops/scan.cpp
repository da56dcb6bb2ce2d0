// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include "hydramix/error.h"
#include "kernels/cpu/scan.h"
#include "ops/arithmetic.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using kernels::ScanChunk;
using kernels::ScanShape;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Everything about a call but its tensors.
struct ScanPlan {
  ScanShape shape;
  std::vector<ScanChunk> chunks;
  std::vector<int64_t> first;  // (sequences + 1): the first chunk of each

  int64_t sequences() const { return static_cast<int64_t>(first.size()) - 1; }
  int64_t chunk_count() const { return static_cast<int64_t>(chunks.size()); }
};

// Tensors in the order of the autograd function's inputs.
enum Input { kX, kDtF, kBF, kCF, kDtB, kBB, kCB, kDtBias, kA, kDelta, kInputs };

void fill_chunks(const std::vector<int64_t>& offsets, int64_t tile, ScanPlan& plan) {
  plan.first = {0};
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t t = offsets[s]; t < offsets[s + 1]; t += tile) {
      const int64_t rows = std::min(tile, offsets[s + 1] - t);
      plan.chunks.push_back({t, rows, t == offsets[s], t + rows == offsets[s + 1]});
    }
    plan.first.push_back(plan.chunk_count());
  }
}

// Buffers of a call that a backward pass wants to see again.
struct Work {
  Tensor prepared, sums, states_f, states_b;

  template <typename T>
  kernels::ScanWorkspace<T> raw() const {
    const auto data = [](const Tensor& t) { return t.defined() ? t.data_ptr<T>() : nullptr; };
    return {data(prepared), sums.data_ptr<double>(), {data(states_f), data(states_b)}};
  }
};

template <typename S>
struct Raw {
  kernels::ScanInputs<S> inputs[2];
  kernels::ScanOperands<S> operands;

  Raw(const ScanShape& shape, const variable_list& in) {
    using T = kernels::Arithmetic<S>;
    for (const int d : {0, 1}) {
      const Tensor &dt = in[d == 0 ? kDtF : kDtB], &b = in[d == 0 ? kBF : kBB],
                   &c = in[d == 0 ? kCF : kCB];
      if (!shape.on[d]) continue;
      inputs[d] = {dt.data_ptr<T>(), storage<S>(b), storage<S>(c),
                   dt.stride(0),     b.stride(0),   c.stride(0)};
    }
    operands = {storage<S>(in[kX]), in[kX].stride(0), in[kDelta].data_ptr<T>(),
                in[kDelta].dim() == 1 ? 0 : in[kDelta].stride(0)};
  }
};

template <typename S>
Tensor run_forward(const ScanPlan& plan, const variable_list& in, bool keep_states, Work& work) {
  using T = kernels::Arithmetic<S>;
  const ScanShape& s = plan.shape;
  const kernels::PreparedPlan prepared(s);
  const int64_t K = plan.chunk_count();
  const auto options = in[kA].options();
  work.prepared = torch::empty({K, prepared.size()}, options);
  work.sums = torch::empty({K, prepared.sums_size()}, options.dtype(torch::kFloat64));
  // A single chunk has no states: neither do many sequences of one chunk each.
  const bool states = std::any_of(plan.chunks.begin(), plan.chunks.end(),
                                  [](const ScanChunk& chunk) { return !chunk.first; });
  if (states && s.on[1]) work.states_b = torch::empty({K, s.H, s.state()}, options);
  if (states && s.on[0] && keep_states) work.states_f = torch::empty({K, s.H, s.state()}, options);

  const Raw<S> raw(s, in);
  const auto space = work.raw<T>();
  const auto y = torch::empty({in[kX].size(0), s.H, s.P}, in[kX].options());
  const T *dt_bias = in[kDtBias].data_ptr<T>(), *A = in[kA].data_ptr<T>();
  parallel(K, [&](int64_t k) {
    kernels::scan_prepare<S>(s, plan.chunks[k], raw.inputs, dt_bias, A,
                             space.prepared + k * prepared.size(),
                             space.sums + k * prepared.sums_size());
  });
  parallel(plan.sequences() * s.tasks(), [&](int64_t i) {
    const int64_t sequence = i / s.tasks(), begin = plan.first[sequence];
    kernels::scan_forward<S>(s, plan.chunks.data(), begin, plan.first[sequence + 1] - begin,
                             i % s.tasks(), raw.operands, space, storage<S>(y), y.stride(0));
  });
  return y;
}

template <typename S>
variable_list run_backward(const ScanPlan& plan, const variable_list& in, const Work& work,
                           const Tensor& dy) {
  using T = kernels::Arithmetic<S>;
  const ScanShape& s = plan.shape;
  const kernels::PartialPlan partial_plan(s);
  const int64_t K = plan.chunk_count(), n = in[kX].size(0);
  const auto options = in[kA].options();
  const bool per_token = in[kDelta].dim() == 2;

  variable_list grads(kInputs);
  grads[kX] = torch::empty({n, s.H, s.P}, in[kX].options());
  const auto ddelta = torch::empty({per_token ? n : plan.sequences(), s.H}, options);
  const auto dA = torch::empty({plan.sequences(), s.H}, options.dtype(torch::kFloat64));
  const auto partial = torch::empty({s.tasks_per_group(), K, s.G, partial_plan.size()}, options);
  const auto ddt = torch::empty({K, partial_plan.dt_size()}, options);
  Tensor dstates;
  if (work.states_b.defined()) dstates = torch::empty_like(work.states_b);

  const Raw<S> raw(s, in);
  const auto space = work.raw<T>();
  kernels::ScanGradients<S> gradients[2] = {};
  for (const int d : {0, 1}) {
    if (!s.on[d]) continue;
    auto &gdt = grads[d == 0 ? kDtF : kDtB], &gb = grads[d == 0 ? kBF : kBB],
         &gc = grads[d == 0 ? kCF : kCB];
    gdt = torch::empty({n, s.H}, options);
    gb = torch::empty({n, s.G, s.N}, in[kX].options());
    gc = torch::empty({n, s.G, s.N}, in[kX].options());
    gradients[d] = {gdt.data_ptr<T>(), storage<S>(gb), storage<S>(gc), s.H, s.G * s.N, s.G * s.N};
  }
  const kernels::ScanBackward<S> out{
      storage<S>(dy),        dy.stride(0),
      storage<S>(grads[kX]), grads[kX].stride(0),
      ddelta.data_ptr<T>(),  dstates.defined() ? dstates.data_ptr<T>() : nullptr,
      partial.data_ptr<T>(), ddt.data_ptr<T>(),
      dA.data_ptr<double>()};
  parallel(plan.sequences() * s.tasks(), [&](int64_t i) {
    const int64_t sequence = i / s.tasks(), begin = plan.first[sequence];
    kernels::scan_backward<S>(s, plan.chunks.data(), K, begin, plan.first[sequence + 1] - begin,
                              sequence, i % s.tasks(), raw.operands, in[kA].data_ptr<T>(), space,
                              out);
  });
  parallel(K, [&](int64_t k) {
    kernels::scan_finish<S>(s, plan.chunks.data(), K, k, raw.inputs, in[kDtBias].data_ptr<T>(),
                            space.prepared, out.partial, out.ddt, gradients);
  });
  grads[kA] = ordered_sum(dA).to(in[kA].scalar_type());
  grads[kDelta] = per_token ? ddelta : ordered_sum(ddelta);
  for (const int dt : {kDtF, kDtB})
    if (grads[dt].defined()) {
      const auto sum = ordered_sum(grads[dt]);
      grads[kDtBias] = grads[kDtBias].defined() ? grads[kDtBias] + sum : sum;
    }
  return grads;
}

class ScanFunction : public torch::autograd::Function<ScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const std::shared_ptr<ScanPlan>& plan,
                        const Tensor& x, const Tensor& dt_f, const Tensor& b_f, const Tensor& c_f,
                        const Tensor& dt_b, const Tensor& b_b, const Tensor& c_b,
                        const Tensor& dt_bias, const Tensor& A, const Tensor& delta) {
    variable_list in{x, dt_f, b_f, c_f, dt_b, b_b, c_b, dt_bias, A, delta};
    Work work;
    const auto y = dispatch_storage(x, [&](auto tag) {
      return run_forward<decltype(tag)>(*plan, in, /*keep_states=*/true, work);
    });
    in.insert(in.end(), {work.prepared, work.sums, work.states_f, work.states_b});
    ctx->save_for_backward(in);
    ctx->saved_data["plan"] = hold(plan);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    check_first_derivative("scan");
    auto in = ctx->get_saved_variables();
    const auto& plan = held<std::shared_ptr<ScanPlan>>(ctx->saved_data["plan"]);
    const Work work{in[kInputs], in[kInputs + 1], in[kInputs + 2], in[kInputs + 3]};
    in.resize(kInputs);
    const auto dy = packed_rows(outputs[0]);
    auto grads = dispatch_storage(
        in[kX], [&](auto tag) { return run_backward<decltype(tag)>(*plan, in, work, dy); });
    grads.insert(grads.begin(), Tensor());  // of the plan
    return grads;
  }
};

void check_like(const Tensor& t, std::vector<int64_t> shape, torch::ScalarType type,
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
                   const std::vector<int64_t>& offsets, const ScanSettings& settings) {
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
  bool quick = x.is_cpu();
  if constexpr (gpu::kBuilt) quick = quick || gpu::takes(x);
  HYDRAMIX_CHECK(quick, "scan: takes tensors on the CPU, and float32 or bfloat16 on a GPU",
                 gpu::kBuilt ? "" : " where the library was built with a CUDA compiler", "; got ",
                 stored, " on ", device, ". Use mix() of a mixer, which takes any.");
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
  check_offsets("scan", offsets, n);
  if constexpr (gpu::kBuilt)
    if (gpu::takes(x))
      return gpu::packed_scan(x, forward, backward, dt_bias, A, delta, offsets, settings);

  // Buffers have a chunk's size, so a chunk is no longer than the longest sequence. That changes no
  // result: where it counts, every sequence is a single chunk.
  constexpr int64_t kLongestChunk = 1024;
  int64_t tile = 1;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    tile = std::max(tile, offsets[s + 1] - offsets[s]);
  tile = std::min({tile, settings.tile, kLongestChunk});

  auto plan = std::make_shared<ScanPlan>();
  plan->shape = {
      H, P, G, N, tile, settings.shift, {on[0], on[1]}, settings.dt_low, settings.dt_high};
  fill_chunks(offsets, tile, *plan);

  // An autograd function takes no undefined tensors: a direction that is not there is empty.
  const auto rows = [](const Tensor& t) {
    return t.defined() ? packed_rows(t) : torch::empty({0});
  };
  const variable_list in{
      rows(x),          rows(forward.dt), rows(forward.b),      rows(forward.c), rows(backward.dt),
      rows(backward.b), rows(backward.c), dt_bias.contiguous(), A.contiguous(),  rows(delta)};
  if (!wants_gradient(in)) {
    Work work;
    return dispatch_storage(x, [&](auto tag) {
      return run_forward<decltype(tag)>(*plan, in, /*keep_states=*/false, work);
    });
  }
  return ScanFunction::apply(plan, in[kX], in[kDtF], in[kBF], in[kCF], in[kDtB], in[kBB], in[kCB],
                             in[kDtBias], in[kA], in[kDelta]);
}

}  // namespace hydramix
