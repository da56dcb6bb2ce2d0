// SPDX-License-Identifier: Apache-2.0
// 32-bit hashes in int64 tensors, so that products do not overflow.
#include "ops/dropout.h"

#include <algorithm>
#include <cmath>

namespace hydramix {
namespace {

using torch::Tensor;

constexpr int64_t kLow32 = 0xffffffff;
constexpr int64_t kChunk = 8192;  // tokens per chunk; bounds the memory of the hashes

// A bijection of 32 bits in which every output bit depends on every input bit. In place.
Tensor scrambled(Tensor h) {
  for (const int64_t factor : {int64_t{0x7feb352d}, int64_t{0x446ca68b}})
    h = h.bitwise_xor_(h.bitwise_right_shift(15)).mul_(factor).bitwise_and_(kLow32);
  return h.bitwise_xor_(h.bitwise_right_shift(16));
}

// Mixes both halves of a 64-bit number into the hash.
Tensor absorbed(Tensor h, const Tensor& number) {
  h = scrambled(h.bitwise_xor_(number.bitwise_and(kLow32)));
  return scrambled(h.bitwise_xor_(number.bitwise_right_shift(32).bitwise_and_(kLow32)));
}

}  // namespace

Tensor keep_mask(const TokenNumbers& tokens, int64_t channels, double share) {
  const auto whole = tokens.sequence.options().dtype(torch::kInt64);
  auto token = torch::full_like(tokens.sequence, 0x3c6ef372);
  for (const auto& number :
       {torch::full_like(tokens.sequence, tokens.seed), tokens.sequence, tokens.place})
    token = absorbed(token, number);
  const auto channel = scrambled(torch::arange(1, channels + 1, whole));
  const auto threshold = static_cast<int64_t>(std::llround((1 - share) * 4294967296.0));
  std::vector<Tensor> masks{torch::empty({0, channels}, whole.dtype(torch::kBool))};
  for (int64_t i = 0; i < token.size(0); i += kChunk) {
    const auto some = token.narrow(0, i, std::min(kChunk, token.size(0) - i)).unsqueeze(1);
    masks.push_back(scrambled(some.bitwise_xor(channel)) < threshold);
  }
  return torch::cat(masks);
}

}  // namespace hydramix
