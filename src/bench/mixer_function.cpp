// SPDX-License-Identifier: Apache-2.0
#include "bench/mixer_function.h"

namespace hydramix::bench {
namespace {

using Mix = std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& params)>;

Function function_of(const std::shared_ptr<Mixer>& mixer, const torch::Tensor& x,
                     const torch::Tensor& params, const Mix& mix) {
  Function f;
  f.forward = [mixer, x, params, mix] { return std::vector<torch::Tensor>{mix(x, params)}; };
  f.inputs = {{"x", x}, {"params", params}};
  // Some weights serve only derive(), not mix(): their gradients are undefined.
  for (const auto& weight : mixer->named_parameters())
    f.inputs.emplace_back(weight.key(), weight.value());
  f.output_entries = x.numel() * mixer->branches();
  return f;
}

struct Inputs {
  torch::Tensor x, params;  // (B, L, H, P), (B, L, params_width)
};

Inputs random_inputs(const Mixer& mixer, const Subject& subject) {
  const Heads heads = mixer.heads();
  const auto x = random_input(subject, heads.channels());
  return {x.unflatten(2, std::vector<int64_t>{heads.H, heads.P}),
          random_input(subject, mixer.params_width())};
}

}  // namespace

Function mixer_function(const std::shared_ptr<Mixer>& mixer, const Subject& subject) {
  const auto [x, params] = random_inputs(*mixer, subject);
  return function_of(mixer, leaf(x), leaf(params),
                     [mixer, layout = layout_of(subject)](const auto& v, const auto& p) {
                       return mixer->mix(v, p, layout);
                     });
}

Function projection_gemm(const Mixer& mixer, const Subject& subject) {
  const int64_t projected = 2 * mixer.heads().channels() + mixer.projection_width();
  return matrix_products(
      {{torch::randn({subject.batch, subject.length, subject.d_model}).requires_grad_(),
        torch::randn({projected, subject.d_model}).requires_grad_()}});
}

double verify_mixer(const std::string& name, const BlockOptions& options, const Subject& subject,
                    double tolerance) {
  MixerOptions small = options.mixer_options;
  small.max_length = subject.length;
  const auto fast = make_mixer(name, options.heads(), small);
  const auto exact = make_mixer(name, options.heads(), small);
  exact->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    auto weights = exact->named_parameters();
    for (const auto& weight : fast->named_parameters()) weights[weight.key()].copy_(weight.value());
  }
  const auto [x, params] = random_inputs(*fast, subject);
  const auto layout = layout_of(subject);
  const auto mix = [&](const torch::Tensor& v, const torch::Tensor& p) {
    return fast->mix(v, p, layout);
  };
  const auto dense = [&](const torch::Tensor& v, const torch::Tensor& p) {
    if (!exact->info().linear) return exact->mix(v, p, layout);  // there is no matrix
    const auto M = exact->materialize(p, v.size(1), layout);
    return layout.from_rows(dense_apply(M, layout.to_rows(v)));
  };
  return verify(name + ", " + title(subject), function_of(fast, leaf(x), leaf(params), mix),
                function_of(exact, leaf(x, torch::kFloat64), leaf(params, torch::kFloat64), dense),
                tolerance);
}

}  // namespace hydramix::bench
