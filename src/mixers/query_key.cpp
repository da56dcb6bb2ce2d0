// SPDX-License-Identifier: Apache-2.0
#include "mixers/query_key.h"

namespace hydramix {

std::vector<Columns> ProjectedQueryKey::projection() const {
  const int64_t width = heads_.H * options_.qk_dim;
  return {{"q", width, true, silu_}, {"k", width, true, silu_}};
}

QueryKey ProjectedQueryKey::query_key(const torch::Tensor& params) const {
  const int64_t H = heads_.H, d = options_.qk_dim;
  return {columns(params, 0, H, d).permute({0, 2, 1, 3}),
          columns(params, H * d, H, d).permute({0, 2, 1, 3})};
}

LearnedQueryKey::LearnedQueryKey(Heads heads, const MixerOptions& options) : Mixer(heads, options) {
  q_matrix =
      register_parameter("q_matrix", torch::empty({options.max_length, heads.H, options.qk_dim}));
  k_matrix =
      register_parameter("k_matrix", torch::empty({options.max_length, heads.H, options.qk_dim}));
  torch::nn::init::xavier_normal_(q_matrix);
  torch::nn::init::xavier_normal_(k_matrix);
}

QueryKey LearnedQueryKey::query_key(const Rows& rows) const {
  const auto table = [&](const torch::Tensor& t) {
    return weight(t, rows).narrow(0, 0, rows.L).permute({1, 0, 2}).unsqueeze(0);
  };
  return {table(q_matrix), table(k_matrix)};
}

torch::Tensor with_identity(const torch::Tensor& M) {
  return M + torch::eye(M.size(-1), M.options());
}

}  // namespace hydramix
