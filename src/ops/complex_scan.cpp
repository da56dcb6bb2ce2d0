// SPDX-License-Identifier: Apache-2.0
#include "ops/complex_scan.h"

#include "hydramix/error.h"
#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor complex_output(const Tensor& x) {
  return torch::empty({x.size(0), 2, x.size(1)}, x.options());
}

bool has_complex_kernel(const Tensor& x) {
  const auto type = x.scalar_type();
  return x.is_cpu() ? type == torch::kFloat32 || type == torch::kFloat64
                    : backend_of(x) == Backend::kCuda;
}

class ComplexScanFunction : public torch::autograd::Function<ComplexScanFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Sequences& sequences, const Tensor& x,
                        const Tensor& re, const Tensor& im) {
    auto y = complex_output(x);
    HYDRAMIX_ON_BACKEND(x, complex_scan_forward, x, re, im, sequences, y);
    ctx->save_for_backward({re, im, y});
    ctx->saved_data["sequences"] = hold(sequences);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("complex scan");
    const auto in = ctx->get_saved_variables();
    const auto& sequences = held<Sequences>(ctx->saved_data["sequences"]);
    const auto d = HYDRAMIX_ON_BACKEND(in[2], complex_scan_backward, in[0], in[1], sequences, in[2],
                                       packed_rows(outputs[0]));
    return {Tensor(), d[0], d[1], d[2]};
  }
};

}  // namespace

Tensor complex_scan(const Tensor& x, const Tensor& re, const Tensor& im,
                    const Sequences& sequences) {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 2 && x.size(1) >= 1 && has_complex_kernel(x),
                 "complex scan: x must be (n, C), float32 or float64 on the CPU, float32 or "
                 "bfloat16 on a GPU with kernels; got ",
                 x.defined() ? concat(x.scalar_type(), " of shape ", x.sizes(), " on ", x.device())
                             : "an undefined tensor",
                 ".");
  for (const auto& [name, t] : {std::pair{"re", re}, {"im", im}})
    HYDRAMIX_CHECK(t.defined() && t.dim() == 1 && t.size(0) == x.size(1) &&
                       t.device() == x.device() && t.scalar_type() == torch::kFloat64,
                   "complex scan: ", name, " must be float64 of shape [", x.size(1), "] on ",
                   x.device(), "; got ",
                   t.defined()
                       ? concat(t.scalar_type(), " of shape ", t.sizes(), " on ", t.device())
                       : "an undefined tensor",
                   ".");
  check_offsets("complex scan", sequences.offsets(), x.size(0));
  const variable_list in{packed_rows(x), re.contiguous(), im.contiguous()};
  if (wants_gradient(in)) return ComplexScanFunction::apply(sequences, in[0], in[1], in[2]);
  auto y = complex_output(x);
  HYDRAMIX_ON_BACKEND(y, complex_scan_forward, in[0], in[1], in[2], sequences, y);
  return y;
}

}  // namespace hydramix
