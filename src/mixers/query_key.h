// SPDX-License-Identifier: Apache-2.0
// Families with a query per row and a key per column of the matrix: q_i, k_j in R^d per head. They
// differ in the formula of an entry. They share the sources of queries and keys: columns of the
// input projection (sequence aligned), or learned tables indexed by position (data independent).
#pragma once

#include "hydramix/mixer.h"

namespace hydramix {

struct QueryKey {
  torch::Tensor q, k;  // (S or 1, H, L, d) each
};

// Queries and keys from the projection, convolved; SiLU where the family applies it.
class ProjectedQueryKey : public Mixer {
 public:
  ProjectedQueryKey(Heads heads, const MixerOptions& options, bool silu)
      : Mixer(heads, options), silu_(silu) {}

  std::vector<Columns> projection() const override;

 protected:
  QueryKey query_key(const torch::Tensor& params) const;

 private:
  bool silu_;
};

// Queries and keys learned for every position up to max_length.
class LearnedQueryKey : public Mixer {
 public:
  LearnedQueryKey(Heads heads, const MixerOptions& options);

 protected:
  QueryKey query_key(const Rows& rows) const;

 private:
  torch::Tensor q_matrix, k_matrix;  // (max_length, H, d)
};

// M + I: the mixers of the paper's ablation include a residual.
torch::Tensor with_identity(const torch::Tensor& M);

}  // namespace hydramix
