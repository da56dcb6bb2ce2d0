// SPDX-License-Identifier: Apache-2.0
// 32-bit hashes in int64 tensors, so that products do not overflow.
#include "ops/dropout.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "ops/described.h"

namespace hydramix {
namespace {

using torch::Tensor;

constexpr int64_t kLow32 = 0xffffffff;
constexpr int64_t kChunk = 8192;  // rows of a mask per chunk; bounds the memory of the hashes

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

// Hashes (n) of numbers (n) each. Embeddings, outputs, inner channels, matrices and branches have
// different starts.
Tensor hash_of(int64_t start, std::initializer_list<Tensor> numbers) {
  auto hash = torch::full_like(*numbers.begin(), start);
  for (const auto& number : numbers) hash = absorbed(hash, number);
  return hash;
}

// (n) -> (n * count): the hashes of each with 0, ..., count - 1.
Tensor with_each(const Tensor& hash, int64_t count) {
  return absorbed(hash.unsqueeze(1).repeat({1, count}), torch::arange(count, hash.options()))
      .flatten();
}

// (n) -> (n, channels) bool
Tensor kept_channels(const Tensor& hash, int64_t channels, double share) {
  const auto channel = scrambled(torch::arange(1, channels + 1, hash.options()));
  const auto threshold = static_cast<int64_t>(std::llround((1 - share) * 4294967296.0));
  std::vector<Tensor> masks{torch::empty({0, channels}, hash.options().dtype(torch::kBool))};
  for (int64_t i = 0; i < hash.size(0); i += kChunk) {
    const auto some = hash.narrow(0, i, std::min(kChunk, hash.size(0) - i)).unsqueeze(1);
    masks.push_back(scrambled(some.bitwise_xor(channel)) < threshold);
  }
  return torch::cat(masks);
}

// The mask of one of several outputs or layers, which are numbered.
Tensor kept_of_number(int64_t kind, const TokenNumbers& tokens, int64_t number, int64_t channels,
                      double share) {
  const auto& sequence = tokens.sequence;
  return kept_channels(hash_of(kind, {torch::full_like(sequence, tokens.seed), sequence,
                                      tokens.place, torch::full_like(sequence, number)}),
                       channels, share);
}

}  // namespace

Tensor keep_mask(const TokenNumbers& tokens, int64_t channels, double share) {
  return kept_channels(hash_of(0x3c6ef372, {torch::full_like(tokens.sequence, tokens.seed),
                                            tokens.sequence, tokens.place}),
                       channels, share);
}

Tensor keep_output(const TokenNumbers& tokens, int64_t output, int64_t channels, double share) {
  return kept_of_number(0x510e527f, tokens, output, channels, share);
}

Tensor keep_inner(const TokenNumbers& tokens, int64_t layer, int64_t channels, double share) {
  return kept_of_number(0x1f83d9ab, tokens, layer, channels, share);
}

Tensor keep_entries(const DropoutKey& matrices, int64_t heads, int64_t L, double share) {
  const auto& sequence = matrices.sequences;
  const auto matrix = hash_of(0xa54ff53a, {torch::full_like(sequence, matrices.seed), sequence,
                                           torch::full_like(sequence, matrices.layer)});
  return kept_channels(with_each(with_each(matrix, heads), L), L, share)
      .view({sequence.size(0), heads, L, L});
}

Tensor keep_branches(const DropoutKey& key, int64_t output, double share) {
  const auto& sequence = key.sequences;
  const auto hash = hash_of(0x9b05688c, {torch::full_like(sequence, key.seed), sequence,
                                         torch::full_like(sequence, output)});
  return kept_channels(hash, 1, share).squeeze(1);
}

void check_key(const std::string& who, const DropoutKey& key, int64_t count, double share) {
  const auto& numbers = key.sequences;
  HYDRAMIX_CHECK(numbers.defined() && numbers.dim() == 1 && numbers.size(0) == count &&
                     numbers.scalar_type() == torch::kInt64,
                 who, ": dropout = ", share, " in training needs a number for each of the ", count,
                 " sequences, (S) int64; got ", described(numbers),
                 ". Give a DropoutKey, or call eval().");
}

}  // namespace hydramix
