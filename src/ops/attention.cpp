// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "hydramix/error.h"
#include "ops/head_batch.h"
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

// On the CPU a tile is half a megabyte of float32. From 128 x 512 to 1024 x 512 times differ by 10
// %.
Tile tile_of(const torch::Tensor& q) {
  const int64_t L = q.size(1), keys = std::min<int64_t>(L, q.is_cpu() ? 512 : 4096);
  return {std::min(L, q.is_cpu() ? 256 : piece_length(keys, q)), keys};
}

// A range of heads of (N, L, ...) tensors; of() takes their part, or some places of it.
struct HeadRange {
  int64_t begin, count;
  torch::Tensor of(const torch::Tensor& t) const { return t.narrow(0, begin, count); }
  torch::Tensor of(const torch::Tensor& t, int64_t place, int64_t n) const {
    return of(t).narrow(1, place, n);
  }
};

// Writes q_i . k_j into `buffer`, and minus infinity where `padding` (N, L) masks key j.
torch::Tensor scores(const torch::Tensor& buffer, const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& padding) {
  auto z = buffer.narrow(0, 0, q.size(0) * q.size(1) * k.size(1))
               .view({q.size(0), q.size(1), k.size(1)});
  matrix_product_into(z, q, k.transpose(1, 2));
  if (padding.defined()) z.masked_fill_(padding.unsqueeze(1), -kInf);
  return z;
}

// A struct, because an autograd function accepts no undefined tensor as an argument.
struct Padding {
  torch::Tensor keys;  // (N, L) bool, true where key j is masked; undefined: no key is

  torch::Tensor of(const HeadRange& heads, int64_t place, int64_t n) const {
    return keys.defined() ? heads.of(keys, place, n) : keys;
  }
};

// q (N, L, d) scaled by 1 / sqrt(d), k (N, L, d), x (N, L, C).
class SoftmaxAttention : public torch::autograd::Function<SoftmaxAttention> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& x,
                               const Padding& padding) {
    const int64_t L = q.size(1);
    const Tile tile = tile_of(q);
    const auto y = torch::empty_like(x), log_sum = torch::empty({q.size(0), L, 1}, q.options());
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
        for (int64_t j = 0; j < L; j += tile.keys) {
          const int64_t m = std::min(tile.keys, L - j);
          auto z = scores(buffer, heads.of(q, i, n), heads.of(k, j, m), padding.of(heads, j, m));
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
    context->save_for_backward({q, k, x, padding.keys, y, log_sum});
    return y;
  }

  // With P = softmax and dP = dy x^T:  dx = P^T dy,  dz = P (dP - y . dy),  dq = dz k,  dk = dz^T
  // q.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    HYDRAMIX_CHECK(!torch::GradMode::is_enabled(),
                   "attention: a second derivative was asked for (create_graph); the product "
                   "without a matrix has first derivatives only. Differentiate "
                   "materialize(params, L) @ x instead.");
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &x = saved[2], &y = saved[4], &log_sum = saved[5];
    const Padding padding{saved[3]};
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
        for (int64_t j = 0; j < L; j += tile.keys) {
          const int64_t m = std::min(tile.keys, L - j);
          const auto k_j = heads.of(k, j, m);
          auto P = scores(buffer, q_i, k_j, padding.of(heads, j, m));
          P.sub_(heads.of(log_sum, i, n)).exp_();
          matrix_product_into(heads.of(dx, j, m), P.transpose(1, 2), dy_i, /*add=*/true);
          auto dz = scores(second_buffer, dy_i, heads.of(x, j, m), {});
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
    const auto y = fused_attention(a, b, c, keys.valid, scale);
    context->saved_data["inputs"] = std::vector<torch::Tensor>{a, b, c};
    context->saved_data["y"] = y;
    return y.detach();
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
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
                                      const torch::Tensor& x, const torch::Tensor& valid) {
  const int64_t S = x.size(0), P = x.size(3), width = (std::max(q.size(3), P) + 7) / 8 * 8;
  const auto widened = [&](const torch::Tensor& t) {
    return torch::constant_pad_nd(t.expand({S, -1, -1, -1}), {0, width - t.size(3)});
  };
  Keys keys;
  if (valid.defined()) keys.valid = valid.unsqueeze(1).unsqueeze(2);
  const auto a = widened(q), b = widened(k), c = widened(x.permute({0, 2, 1, 3}));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const auto y = torch::GradMode::is_enabled()
                     ? FusedAttention::apply(a, b, c, keys, scale)
                     : fused_attention(a, b, c, keys.valid, scale);  // (S, H, L, width)
  return y.narrow(3, 0, P).permute({0, 2, 1, 3});
}

}  // namespace

bool fits_fused_attention(const torch::Tensor& q, const torch::Tensor& x) {
  constexpr int64_t kMaxHeadWidth = 256;  // limit of flash attention
  return kHasFusedAttention && x.is_cuda() && std::max(q.size(3), x.size(3)) <= kMaxHeadWidth;
}

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& x, const torch::Tensor& valid) {
  if (x.scalar_type() == torch::kBFloat16 && fits_fused_attention(q, x))
    return softmax_attention_fused(q, k, x, valid);
  const int64_t S = x.size(0), H = q.size(1);
  // Sequences share a matrix only if they have the same keys.
  const bool shared = q.size(0) == 1 && !valid.defined();
  const auto flat_heads = [&](const torch::Tensor& t) {
    return t.expand({shared ? 1 : S, -1, -1, -1}).flatten(0, 1).contiguous();
  };
  Padding padding;
  if (valid.defined()) padding.keys = (~valid).repeat_interleave(H, 0);  // (S H, L)
  const auto y = SoftmaxAttention::apply(flat_heads(q / std::sqrt(static_cast<double>(q.size(3)))),
                                         flat_heads(k), to_head_batch(x, shared), padding);
  return from_head_batch(y, x, shared);
}

}  // namespace hydramix
