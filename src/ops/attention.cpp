// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "hydramix/error.h"
#include "ops/head_batch.h"
#include "ops/kernel_tensors.h"
#include "ops/product.h"

namespace hydramix {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A tile of scores: `queries` rows of `keys` numbers.
struct Tile {
  int64_t queries, keys;
};

// On the CPU a tile is half a megabyte of float32. Times from 128 x 512 to 1024 x 512 are within
// 10 %.
Tile tile_of(const torch::Tensor& q) {
  const int64_t L = q.size(1), keys = std::min<int64_t>(L, q.is_cpu() ? 512 : 4096);
  return {std::min(L, q.is_cpu() ? 256 : piece_length(keys, q)), keys};
}

// A range of heads of (N, L, ...) tensors; of() takes their part, or some positions of it.
struct HeadRange {
  int64_t begin, count;
  torch::Tensor of(const torch::Tensor& t) const { return t.narrow(0, begin, count); }
  torch::Tensor of(const torch::Tensor& t, int64_t place, int64_t n) const {
    return of(t).narrow(1, place, n);
  }
};

// Writes q_i . k_j into `buffer`.
torch::Tensor scores(const torch::Tensor& buffer, const torch::Tensor& q, const torch::Tensor& k) {
  auto z = buffer.narrow(0, 0, q.size(0) * q.size(1) * k.size(1))
               .view({q.size(0), q.size(1), k.size(1)});
  matrix_product_into(z, q, k.transpose(1, 2));
  return z;
}

// The entries that count. A struct, because an autograd function accepts no undefined tensor as an
// argument.
struct Mask {
  torch::Tensor keys;   // (N, L) bool, true where key j is masked; undefined: no key is
  bool causal = false;  // masks the keys after each query

  // Sets the masked scores z (count, n, m) of queries i, i + 1, ... and keys j, j + 1, ... to minus
  // infinity.
  void apply(torch::Tensor& z, const HeadRange& heads, int64_t i, int64_t j) const {
    const int64_t n = z.size(1), m = z.size(2);
    if (keys.defined()) z.masked_fill_(heads.of(keys, j, m).unsqueeze(1), -kInf);
    if (causal && j + m - 1 > i)
      z.masked_fill_(torch::ones({n, m}, z.options().dtype(torch::kBool)).triu(i - j + 1), -kInf);
  }

  // The number of keys that any of the queries before `end` sees.
  int64_t seen(int64_t end, int64_t L) const { return causal ? end : L; }
};

// q (N, L, d) scaled by 1 / sqrt(d), k (N, L, d), x (N, L, C).
class SoftmaxAttention : public torch::autograd::Function<SoftmaxAttention> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& x, const Mask& mask) {
    const int64_t L = q.size(1);
    const Tile tile = tile_of(q);
    auto y = torch::empty_like(x), log_sum = torch::empty({q.size(0), L, 1}, q.options());
    // The lowest finite number, because the difference of two infinities is NaN.
    const double lowest = q.scalar_type() == torch::kFloat64 ? std::numeric_limits<double>::lowest()
                                                             : std::numeric_limits<float>::lowest();
    for_heads(q.size(0), q.device(), [&](int64_t begin, int64_t count) {
      const HeadRange heads{begin, count};
      const auto buffer = torch::empty({count * tile.queries * tile.keys}, q.options());
      for (int64_t i = 0; i < L; i += tile.queries) {
        const int64_t n = std::min(tile.queries, L - i);
        const auto out = heads.of(y, i, n).zero_();  // (count, n, C)
        const auto sum = torch::zeros({count, n, 1}, q.options());
        auto maximum = torch::full({count, n, 1}, lowest, q.options());
        const int64_t seen = mask.seen(i + n, L);
        for (int64_t j = 0; j < seen; j += tile.keys) {
          const int64_t m = std::min(tile.keys, seen - j);
          auto z = scores(buffer, heads.of(q, i, n), heads.of(k, j, m));
          mask.apply(z, heads, i, j);
          const auto new_maximum = torch::maximum(maximum, z.amax(2, /*keepdim=*/true));
          z.sub_(new_maximum).exp_();
          const auto rescale = maximum.sub_(new_maximum).exp_();
          sum.mul_(rescale).add_(z.sum(2, /*keepdim=*/true));
          matrix_product_into(out.mul_(rescale), z, heads.of(x, j, m), /*add=*/true);
          maximum = new_maximum;
        }
        out.div_(sum);
        heads.of(log_sum, i, n).copy_(sum.log_().add_(maximum));
      }
    });
    context->save_for_backward({q, k, x, mask.keys, y, log_sum});
    context->saved_data["causal"] = mask.causal;
    return y;
  }

  // With P = softmax and dP = dy x^T:
  //
  //   dx = P^T dy,  dz = P (dP - y . dy),  dq = dz k,  dk = dz^T q
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const NoAutocast no_autocast;
    HYDRAMIX_CHECK(!torch::GradMode::is_enabled(),
                   "attention: a second derivative was asked for (create_graph); the product "
                   "without a matrix has first derivatives only. Differentiate "
                   "materialize(params, L) @ x instead.");
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &x = saved[2], &y = saved[4], &log_sum = saved[5];
    const Mask mask{saved[3], context->saved_data["causal"].toBool()};
    const int64_t L = q.size(1);
    const Tile tile = tile_of(q);
    const auto dy = gradients[0].contiguous();
    const auto y_dot_dy = (dy * y).sum(2, /*keepdim=*/true);  // (N, L, 1): y . dy
    const auto dq = torch::zeros_like(q), dk = torch::zeros_like(k), dx = torch::zeros_like(x);
    for_heads(q.size(0), q.device(), [&](int64_t begin, int64_t count) {
      const HeadRange heads{begin, count};
      const auto buffer = torch::empty({count * tile.queries * tile.keys}, q.options());
      const auto second_buffer = torch::empty_like(buffer);
      for (int64_t i = 0; i < L; i += tile.queries) {
        const int64_t n = std::min(tile.queries, L - i);
        const auto q_i = heads.of(q, i, n), dy_i = heads.of(dy, i, n);
        const int64_t seen = mask.seen(i + n, L);
        for (int64_t j = 0; j < seen; j += tile.keys) {
          const int64_t m = std::min(tile.keys, seen - j);
          const auto k_j = heads.of(k, j, m);
          auto P = scores(buffer, q_i, k_j);
          mask.apply(P, heads, i, j);
          P.sub_(heads.of(log_sum, i, n)).exp_();
          matrix_product_into(heads.of(dx, j, m), P.transpose(1, 2), dy_i, /*add=*/true);
          auto dz = scores(second_buffer, dy_i, heads.of(x, j, m));
          dz.sub_(heads.of(y_dot_dy, i, n)).mul_(P);
          matrix_product_into(heads.of(dq, i, n), dz, k_j, /*add=*/true);
          matrix_product_into(heads.of(dk, j, m), dz.transpose(1, 2), q_i, /*add=*/true);
        }
      }
    });
    return {dq, dk, dx, {}};
  }
};

// Makes LibTorch choose deterministic attention kernels, forward and backward, until the end of the
// scope. The setting is global to the process: the first instance sets it, the last one restores
// it. (With warn_only LibTorch would keep the other kernels.)
class Deterministic {
 public:
  Deterministic() {
    const std::lock_guard lock(mutex_);
    if (depth_++ > 0) return;
    was_deterministic_ = at::globalContext().deterministicAlgorithms();
    was_warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  ~Deterministic() {
    const std::lock_guard lock(mutex_);
    if (--depth_ == 0)
      at::globalContext().setDeterministicAlgorithms(was_deterministic_, was_warn_only_);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  inline static std::mutex mutex_;
  inline static int depth_ = 0;
  inline static bool was_deterministic_ = false, was_warn_only_ = false;
};

struct Keys {
  torch::Tensor valid;  // (S, 1, 1, L) bool, false where key j is masked; undefined: no key is
  bool causal;          // query i sees the keys up to i; then `valid` is undefined
};

// LibTorch's attention with a deterministic gradient; by default LibTorch sums it in any order. q,
// k, x (S, H, L, P) -> (S, H, L, P).
class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& x, const Keys& keys,
                               double scale) {
    const torch::AutoGradMode with_gradient(true);
    const auto leaf = [](const torch::Tensor& t) { return t.detach().requires_grad_(); };
    const auto a = leaf(q), b = leaf(k), c = leaf(x);
    const Deterministic deterministic;  // the forward pass also chooses the backward kernel
    const auto y = fused_attention(a, b, c, keys.valid, keys.causal, scale);
    context->saved_data["inputs"] = std::vector<torch::Tensor>{a, b, c};
    context->saved_data["y"] = y;
    return y.detach();
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const NoAutocast no_autocast;
    HYDRAMIX_CHECK(!torch::GradMode::is_enabled(),
                   "attention: a second derivative was asked for (create_graph); LibTorch's "
                   "kernels have first derivatives only. Compute in float32 instead.");
    const Deterministic deterministic;
    const torch::AutoGradMode with_gradient(true);
    // Retained, because the caller may retain the outer graph.
    const auto g = torch::autograd::grad({context->saved_data["y"].toTensor()},
                                         context->saved_data["inputs"].toTensorVector(),
                                         {gradients[0]}, /*retain_graph=*/true);
    return {g[0], g[1], g[2], {}, {}};
  }
};

// The kernels need one width for q, k and x, a multiple of 8. Zeros appended to q and k change no
// product; those appended to x give columns that are dropped.
torch::Tensor softmax_attention_fused(const torch::Tensor& q, const torch::Tensor& k,
                                      const torch::Tensor& x, const torch::Tensor& valid,
                                      bool causal) {
  const int64_t S = x.size(0), P = x.size(3), width = (std::max(q.size(3), P) + 7) / 8 * 8;
  const auto widened = [&](const torch::Tensor& t) {
    return torch::constant_pad_nd(t.expand({S, -1, -1, -1}), {0, width - t.size(3)});
  };
  Keys keys{{}, causal};
  if (valid.defined()) keys.valid = valid.unsqueeze(1).unsqueeze(2);
  const auto a = widened(q), b = widened(k), c = widened(x.permute({0, 2, 1, 3}));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const auto y = torch::GradMode::is_enabled()
                     ? FusedAttention::apply(a, b, c, keys, scale)
                     : fused_attention(a, b, c, keys.valid, causal, scale);  // (S, H, L, width)
  return y.narrow(3, 0, P).permute({0, 2, 1, 3});
}

torch::Tensor any_softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                    const torch::Tensor& x, const torch::Tensor& valid,
                                    bool causal) {
  if (x.scalar_type() == torch::kBFloat16 && fits_fused_attention(q, x))
    return softmax_attention_fused(q, k, x, valid, causal);
  const int64_t S = x.size(0), H = q.size(1);
  // Sequences share a matrix only if they have the same keys.
  const bool shared = q.size(0) == 1 && !valid.defined();
  const auto flat_heads = [&](const torch::Tensor& t) {
    return t.expand({shared ? 1 : S, -1, -1, -1}).flatten(0, 1).contiguous();
  };
  Mask mask{{}, causal};
  if (valid.defined()) mask.keys = (~valid).repeat_interleave(H, 0);  // (S H, L)
  const auto y = SoftmaxAttention::apply(flat_heads(q / std::sqrt(static_cast<double>(q.size(3)))),
                                         flat_heads(k), to_head_batch(x, shared), mask);
  return from_head_batch(y, x, shared);
}

}  // namespace

bool fits_fused_attention(const torch::Tensor& q, const torch::Tensor& x) {
  constexpr int64_t kMaxHeadWidth = 256;  // limit of flash attention
  return kHasFusedAttention && x.is_cuda() && std::max(q.size(3), x.size(3)) <= kMaxHeadWidth;
}

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& x, const torch::Tensor& valid) {
  return any_softmax_attention(q, k, x, valid, /*causal=*/false);
}

torch::Tensor causal_softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                       const torch::Tensor& x) {
  return any_softmax_attention(q, k, x, {}, /*causal=*/true);
}

}  // namespace hydramix
