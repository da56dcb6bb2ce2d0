// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/embedding.h"

#include "kernels/cuda/limits.h"
#include "ops/gpu/launch.h"
#include "ops/gpu/ops.h"
#include "ops/kernel_tensors.h"

namespace hydramix::gpu {
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
    check_first_derivative("embedding");
    const auto ids = ctx->get_saved_variables()[0];
    const int64_t C = outputs[0].size(-1);
    const auto dy = outputs[0].reshape({-1, C}).contiguous();
    HYDRAMIX_CHECK(dy.size(0) < cuda::kMostTokens,
                   "embedding: a call on a GPU takes fewer than 2^30 tokens; got ", dy.size(0),
                   ". Split the batch.");
    const c10::cuda::CUDAGuard guard(dy.device());
    const auto dtable = torch::zeros({ctx->saved_data["rows"].toInt(), C}, dy.options());
    cuda::EmbeddingGradient<float> p;
    p.tokens = dy.size(0), p.ids_end = dtable.size(0), p.columns = static_cast<int>(C);
    p.ids = ids.data_ptr<int64_t>();
    p.dy = dy.data_ptr<float>(), p.dy_row = C;
    p.dtable = dtable.data_ptr<float>();
    std::size_t bytes = 0;
    check(cuda::embedding_gradient_workspace(p.tokens, p.ids_end, p.columns, bytes), "embedding");
    const auto work = scratch(bytes, dy);
    check(cuda::embedding_gradient(p, work.data_ptr(), stream()), "embedding");
    return {dtable, Tensor()};
  }
};

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  if (!wants_gradient({table})) return torch::embedding(table, ids);
  return EmbeddingFunction::apply(table, ids.contiguous());
}

}  // namespace hydramix::gpu
