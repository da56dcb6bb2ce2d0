// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <string>

namespace hydramix {
namespace {

constexpr std::size_t kShaBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kShaRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_sha_block(const uint8_t* block, std::array<uint32_t, 8>& state) {
  std::array<uint32_t, 64> w;
  for (std::size_t k = 0; k < 16; ++k)
    w[k] = uint32_t{block[4 * k]} << 24 | uint32_t{block[4 * k + 1]} << 16 |
           uint32_t{block[4 * k + 2]} << 8 | block[4 * k + 3];
  for (std::size_t k = 16; k < 64; ++k) {
    const uint32_t a = w[k - 15], b = w[k - 2];
    w[k] = w[k - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[k - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t k = 0; k < 64; ++k) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kShaRounds[k] + w[k];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> sums = {a, b, c, d, e, f, g, h};
  for (std::size_t k = 0; k < 8; ++k) state[k] += sums[k];
}

}  // namespace

Sha256 sha256(std::string_view text) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = uint64_t{text.size()} * 8;
  std::string padded(text);
  padded += '\x80';
  padded.append((2 * kShaBlock - 8 - padded.size() % kShaBlock) % kShaBlock, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift & 0xFF);
  for (std::size_t at = 0; at < padded.size(); at += kShaBlock)
    add_sha_block(reinterpret_cast<const uint8_t*>(padded.data()) + at, state);
  Sha256 digest;
  for (std::size_t k = 0; k < digest.size(); ++k)
    digest[k] = static_cast<uint8_t>(state[k / 4] >> (24 - 8 * (k % 4)));
  return digest;
}

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  std::string block(key);
  if (key.size() > kShaBlock) {
    const Sha256 digest = sha256(key);
    block.assign(digest.begin(), digest.end());
  }
  block.resize(kShaBlock, '\0');
  std::string inner = block, outer = block;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  const Sha256 digest = sha256(inner += text);
  return sha256(outer.append(digest.begin(), digest.end()));
}

}  // namespace hydramix
