// SPDX-License-Identifier: Apache-2.0
#include "ops/cauchy.h"

#include <algorithm>

#include "hydramix/error.h"
#include "ops/head_batch.h"
#include "ops/kernel_tensors.h"
#include "ops/product.h"

namespace hydramix {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Outputs of one pass over the pieces of E = exp(-t_r a_id) (N, L, d R). The defined ones are
// computed.
struct PassOutputs {
  torch::Tensor gathered = {};  // (N, d R, C): E^T v
  torch::Tensor spread = {};    // (N, L, C): E s
  torch::Tensor slope = {};     // (N, L, d): sum_r -t_r E_idr s_dr . v_i, the gradient of a
};

// a (N, L, d), minus_t (R), v (N, L, C), s (N, d R, C).
void pass(const torch::Tensor& a, const torch::Tensor& minus_t, const torch::Tensor& v,
          const torch::Tensor& s, const PassOutputs& outputs) {
  const int64_t L = a.size(1), d = a.size(2), R = minus_t.size(0), rank = d * R;
  const int64_t T = std::min(L, piece_length(rank, a));
  for_heads(a.size(0), a.device(), [&](int64_t begin, int64_t count) {
    const auto buffer = torch::empty({count * T * rank}, a.options());
    const auto second = outputs.slope.defined() ? torch::empty_like(buffer) : torch::Tensor();
    for (int64_t place = 0; place < L; place += T) {
      const int64_t n = std::min(T, L - place);
      const auto piece = [&](const torch::Tensor& t) {
        return t.narrow(0, begin, count).narrow(1, place, n);
      };
      const auto heads = [&](const torch::Tensor& t) { return t.narrow(0, begin, count); };
      const auto fit = [&](const torch::Tensor& t) {
        return t.narrow(0, 0, count * n * rank).view({count, n, rank});
      };
      auto E = fit(buffer).view({count, n, d, R});
      at::mul_out(E, piece(a).unsqueeze(3), minus_t).exp_();
      E = E.view({count, n, rank});
      if (outputs.gathered.defined())
        matrix_product_into(heads(outputs.gathered), E.transpose(1, 2), piece(v), /*add=*/true);
      if (outputs.spread.defined()) {
        auto out = piece(outputs.spread);
        matrix_product_into(out, E, heads(s));
      }
      if (outputs.slope.defined()) {
        auto dE = fit(second);
        matrix_product_into(dE, piece(v), heads(s).transpose(1, 2));
        dE.mul_(E);
        piece(outputs.slope).copy_(at::mv(dE.view({-1, R}), minus_t).view({count, n, d}));
      }
    }
  });
}

void refuse_second_derivative() {
  HYDRAMIX_CHECK(!torch::GradMode::is_enabled(),
                 "cauchy: a second derivative was asked for (create_graph); the fast product has "
                 "first derivatives only. Differentiate materialize(params, L) @ x instead.");
}

// Calls task(begin, count, piece, terms) with the terms 1 / (a_id + b_jd) (count, n, L, d) of some
// rows of some heads. piece(t) are those rows of t.
template <typename Task>
void for_terms(const torch::Tensor& a, const torch::Tensor& b, const Task& task) {
  const int64_t L = a.size(1), d = a.size(2), T = std::min(L, piece_length(L * d, a));
  for_heads(a.size(0), a.device(), [&](int64_t begin, int64_t count) {
    const auto columns = b.narrow(0, begin, count).unsqueeze(1);
    for (int64_t place = 0; place < L; place += T) {
      const int64_t n = std::min(T, L - place);
      const auto piece = [&](const torch::Tensor& t) {
        return t.narrow(0, begin, count).narrow(1, place, n);
      };
      auto terms = (piece(a).unsqueeze(2) + columns).reciprocal_();
      task(begin, count, piece, terms);
    }
  });
}

class CauchyMatrix : public torch::autograd::Function<CauchyMatrix> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& a,
                               const torch::Tensor& b) {
    auto M = torch::empty({a.size(0), a.size(1), b.size(1)}, a.options());
    for_terms(a, b, [&](int64_t, int64_t, const auto& piece, const torch::Tensor& terms) {
      auto rows = piece(M);
      at::sum_out(rows, terms, {3});
    });
    context->save_for_backward({a, b});
    return M;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const NoAutocast no_autocast;
    refuse_second_derivative();
    const auto saved = context->get_saved_variables();
    const auto &a = saved[0], &b = saved[1];
    const auto dM = gradients[0].contiguous();
    const auto da = torch::empty_like(a), db = torch::zeros_like(b);
    for_terms(a, b, [&](int64_t begin, int64_t count, const auto& piece, torch::Tensor& terms) {
      terms.mul_(terms).mul_(piece(dM).unsqueeze(3)).neg_();
      auto rows = piece(da);
      at::sum_out(rows, terms, {2});
      db.narrow(0, begin, count).add_(terms.sum(1));
    });
    return {da, db};
  }
};

class CauchyProduct : public torch::autograd::Function<CauchyProduct> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& a,
                               const torch::Tensor& b, const torch::Tensor& x,
                               const torch::Tensor& minus_t, const torch::Tensor& w) {
    const auto s = torch::zeros({x.size(0), w.size(0), x.size(2)}, x.options());
    pass(b, minus_t, x, {}, {.gathered = s});
    s.mul_(w);
    auto y = torch::empty_like(x);
    pass(a, minus_t, {}, s, {.spread = y});
    context->save_for_backward({a, b, x, minus_t, w, s});
    return y;
  }

  // With s = w E_b^T x and u = w E_a^T dy:  dx = E_b u, and the slopes of both a and b.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const NoAutocast no_autocast;
    refuse_second_derivative();
    const auto saved = context->get_saved_variables();
    const auto &a = saved[0], &b = saved[1], &x = saved[2], &minus_t = saved[3], &w = saved[4],
               &s = saved[5];
    const auto dy = gradients[0].contiguous();
    const auto like = [](const torch::Tensor& t) {
      return t.requires_grad() ? torch::empty_like(t) : torch::Tensor();
    };
    const auto da = like(a), db = like(b), dx = like(x), u = torch::zeros_like(s);
    pass(a, minus_t, dy, s, {.gathered = u, .slope = da});
    u.mul_(w);
    pass(b, minus_t, x, u, {.spread = dx, .slope = db});
    return {da, db, dx, {}, {}};
  }
};

}  // namespace

torch::Tensor cauchy_matrix(const torch::Tensor& a, const torch::Tensor& b) {
  const auto M = CauchyMatrix::apply(a.flatten(0, 1).contiguous(), b.flatten(0, 1).contiguous());
  return M.view({a.size(0), a.size(1), a.size(2), b.size(2)});
}

torch::Tensor cauchy_product(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& x,
                             const Exponentials& sum) {
  const bool shared = a.size(0) == 1;
  const auto exact = torch::TensorOptions(torch::kFloat64);
  const auto minus_t = -torch::tensor(sum.t, exact), w = torch::tensor(sum.w, exact);
  const auto y = CauchyProduct::apply(
      a.flatten(0, 1).contiguous(), b.flatten(0, 1).contiguous(), to_head_batch(x, shared),
      minus_t.to(a.options()),
      w.repeat({a.size(3)}).unsqueeze(1).to(a.options()));  // (d R, 1): the same rule for every d
  return from_head_batch(y, x, shared);
}

}  // namespace hydramix
