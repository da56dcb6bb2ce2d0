// SPDX-License-Identifier: Apache-2.0
// The gradient of a table of embeddings: for each id, the sum over its tokens. The same call gives
// the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace hydramix::cuda {

template <typename S>
struct EmbeddingGradient {
  int64_t tokens = 0;   // below kMostTokens (limits.h)
  int64_t ids_end = 0;  // rows of the table; below 2^31
  int columns = 0;
  const int64_t* ids = nullptr;  // (tokens); ids outside [0, ids_end) are ignored
  const S* dy = nullptr;         // (tokens, columns), rows `dy_row` values apart
  int64_t dy_row = 0;
  float* dtable = nullptr;  // (ids_end, columns), dense
};

// Bytes of the workspace of the function below, which is aligned to 256 bytes.
cudaError_t embedding_gradient_workspace(int64_t tokens, int64_t ids_end, int columns,
                                         std::size_t& bytes);

// dtable[v] += sum of dy[t] over t with ids[t] = v, by ascending t: in pieces, whose sums are added
// by ascending t.
template <typename S>
cudaError_t embedding_gradient(const EmbeddingGradient<S>& p, void* workspace, cudaStream_t stream);

}  // namespace hydramix::cuda
