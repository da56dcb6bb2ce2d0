// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include "kernels/cuda/embedding.h"
#include "kernels/cuda/limits.h"
#include "ops/cuda/launch.h"

namespace hydramix::on_cuda {

torch::Tensor embedding_gradient(const torch::Tensor& dy, const torch::Tensor& ids, int64_t rows) {
  HYDRAMIX_CHECK(dy.size(0) < cuda::kMostTokens,
                 "embedding: a call on a GPU takes fewer than 2^30 tokens; got ", dy.size(0),
                 ". Split the batch.");
  const c10::cuda::CUDAGuard guard(dy.device());
  const int64_t C = dy.size(1);
  const auto dtable = torch::zeros({rows, C}, dy.options());
  cuda::EmbeddingGradient<float> p;
  p.tokens = dy.size(0), p.ids_end = rows, p.columns = static_cast<int>(C);
  p.ids = ids.data_ptr<int64_t>();
  p.dy = dy.data_ptr<float>(), p.dy_row = C;
  p.dtable = dtable.data_ptr<float>();
  std::size_t bytes = 0;
  check(cuda::embedding_gradient_workspace(p.tokens, p.ids_end, p.columns, bytes), "embedding");
  const auto work = scratch(bytes, dy);
  check(cuda::embedding_gradient(p, work.data_ptr(), stream()), "embedding");
  return dtable;
}

}  // namespace hydramix::on_cuda
