// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "ops/backend.h"
#include "ops/kernel_tensors.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& table, const Tensor& ids) {
    ctx->save_for_backward({ids});
    ctx->saved_data["rows"] = table.size(0);
    return torch::embedding(table, ids);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("embedding");
    const auto ids = ctx->get_saved_variables()[0];
    const auto dy = outputs[0].reshape({-1, outputs[0].size(-1)}).contiguous();
    return {on_cuda::embedding_gradient(dy, ids, ctx->saved_data["rows"].toInt()), Tensor()};
  }
};

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  if (backend_of(table) == Backend::kCuda && table.scalar_type() == torch::kFloat32 &&
      wants_gradient({table}))
    return EmbeddingFunction::apply(table, ids.contiguous());
  return torch::embedding(table, ids);
}

}  // namespace hydramix
