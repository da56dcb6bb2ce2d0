// SPDX-License-Identifier: Apache-2.0
// The part that all mixers share: checks, conversion to rows and back, widening to float32 or
// float64, and the dense product.
#include "hydramix/mixer.h"

#include "hydramix/error.h"
#include "ops/arithmetic.h"
#include "ops/backend.h"
#include "ops/dropout.h"
#include "ops/product.h"

namespace hydramix {
namespace {

// (B, L) int64: at each token the number of its sequence.
torch::Tensor numbers_at_tokens(const torch::Tensor& numbers, const Layout& layout,
                                const torch::Tensor& x) {
  const auto sequences = layout.sequences(x.size(0), x.size(1));
  const auto tokens = numbers.to(x.device()).index_select(0, sequences.index_of_tokens(x.device()));
  return layout.is_full() ? tokens.view({x.size(0), x.size(1)})
                          : layout.from_tokens(tokens.unsqueeze(0));
}

}  // namespace

torch::Tensor dense_apply(const torch::Tensor& M, const torch::Tensor& x) {
  HYDRAMIX_CHECK(M.dim() == 4 && x.dim() == 4 && M.size(2) == M.size(3) && M.size(3) == x.size(1) &&
                     x.size(2) >= 1 && M.size(1) >= x.size(2) && M.size(1) % x.size(2) == 0 &&
                     (M.size(0) == 1 || M.size(0) == x.size(0)),
                 "dense_apply: M must be (S or 1, branches H, L, L) for x (S, L, H, P); got M ",
                 M.sizes(), " and x ", x.sizes(), ".");
  const int64_t branches = M.size(1) / x.size(2);
  auto v = x.permute({0, 2, 1, 3});                     // (S, H, L, P)
  if (branches > 1) v = v.repeat({1, branches, 1, 1});  // (S, branches H, L, P)
  return matrix_product(M, v).permute({0, 2, 1, 3});
}

const MixerInfo& Mixer::info() const {
  HYDRAMIX_CHECK(
      info_ != nullptr,
      "mixer: was made without the registry. Use make_mixer() with its registered name.");
  return *info_;
}

int64_t Mixer::projection_width() const {
  int64_t width = 0;
  for (const auto& columns : projection()) width += columns.width;
  return width;
}

torch::Tensor Mixer::derive(const torch::Tensor& projected, const torch::Tensor&) const {
  return projected;
}

torch::Tensor Mixer::matrix(const torch::Tensor&, const Rows&) const {
  throw Error(info().name +
              ": has no matrix(). Override it, or register the mixer with `.linear = false`.");
}

torch::Tensor Mixer::product(const torch::Tensor& x, const torch::Tensor& params,
                             const Rows& rows) const {
  return dense_apply(matrix(params, rows), x);
}

torch::Tensor Mixer::packed_product(const torch::Tensor&, const torch::Tensor&,
                                    const Sequences&) const {
  throw Error(info().name +
              ": is registered as packed, but has no packed_product(). Override it, or leave "
              "`packed` out of its registration.");
}

torch::Tensor Mixer::response(const torch::Tensor&, const Rows&) const { return {}; }

Rows Mixer::arithmetic_of(const torch::Tensor& t) const {
  const auto type = arithmetic_type(info().name, "x and params", t);
  return {.S = t.size(0),
          .L = t.size(1),
          .valid = {},
          .options = t.options().dtype(type),
          .given = t.scalar_type(),
          .dropout = {}};
}

torch::Tensor Mixer::weight(const torch::Tensor& w, const Rows& rows) const {
  return widened(info().name, w, rows.options);
}

torch::Tensor Mixer::columns(const torch::Tensor& params, int64_t begin, int64_t heads,
                             int64_t width) {
  return params.narrow(2, begin, heads * width).unflatten(2, std::vector<int64_t>{heads, width});
}

void Mixer::check_params(const std::string& who, const torch::Tensor& params, int64_t L,
                         const Layout& layout) const {
  HYDRAMIX_CHECK(params.defined() && params.dim() == 3 && params.size(2) == params_width() &&
                     params.size(1) == L,
                 who, ": params must be (B, L, ", params_width(), ") with L = ", L, "; got ",
                 params.defined() ? concat("shape ", params.sizes()) : "an undefined tensor",
                 ". They are what derive() makes of the columns that projection() lists.");
  layout.check(who, params.size(0), L);
  HYDRAMIX_CHECK(info().extendable || layout.longest(L) <= options_.max_length, who,
                 ": a sequence of length ", layout.longest(L),
                 " is longer than max_length = ", options_.max_length,
                 "; this matrix is data-independent and has no entries beyond it. Set max_length, "
                 "cut the sequence, or take a mixer that is extendable (hydramix info mixers).");
}

Rows Mixer::rows_of(const torch::Tensor& params, const Layout& layout) const {
  Rows rows = arithmetic_of(params);
  if (layout.is_full()) return rows;
  rows.S = layout.sequences(params.size(0), params.size(1)).count();
  rows.L = layout.longest(params.size(1));
  if (const auto valid = layout.valid(); valid.defined()) rows.valid = valid.to(params.device());
  return rows;
}

torch::Tensor Mixer::params_rows(const torch::Tensor& params, const Layout& layout,
                                 const Rows& rows) const {
  return layout.to_rows(params).to(rows.options.dtype().toScalarType());
}

torch::Tensor Mixer::mix(const torch::Tensor& x, const torch::Tensor& params, const Layout& layout,
                         const DropoutKey& dropout) const {
  const std::string who = info().name + ": mix";
  HYDRAMIX_CHECK(x.defined() && x.dim() == 4 && x.size(2) == heads_.H && x.size(3) == heads_.P, who,
                 ": x must be (B, L, H, P) with H = ", heads_.H, ", P = ", heads_.P, "; got ",
                 x.defined() ? concat("shape ", x.sizes()) : "an undefined tensor",
                 ". Split its channels into heads first.");
  check_params(who, params, x.size(1), layout);
  HYDRAMIX_CHECK(params.size(0) == x.size(0) && params.scalar_type() == x.scalar_type() &&
                     params.device() == x.device(),
                 who, ": x and params must agree in batch, dtype and device; got x ", x.sizes(),
                 " ", x.dtype(), " on ", x.device(), " and params ", params.sizes(), " ",
                 params.dtype(), " on ", params.device(), ".");
  finite_(info().name, *this);
  if (info().packed && backend_of(x) != Backend::kLibTorch) {
    const auto v = layout.to_tokens(x), p = layout.to_tokens(params);
    const auto y =
        packed_product(v.flatten(0, 1), p.flatten(0, 1), layout.sequences(x.size(0), x.size(1)));
    return layout.from_tokens(y.unflatten(0, std::vector<int64_t>{v.size(0), v.size(1)}));
  }
  const bool drops = info().dropout && options_.dropout > 0 && is_training();
  // A kernel of LibTorch may sum in another order for other sizes.
  if (!layout.is_full() && x.is_cpu() && !torch::GradMode::is_enabled() && !drops && x.numel() > 0)
    return mix_one_by_one(x, params, layout);
  torch::Tensor numbers;
  if (drops) {
    check_key(info().name, dropout, layout.sequences(x.size(0), x.size(1)).count(),
              options_.dropout);
    numbers = numbers_at_tokens(dropout.sequences, layout, x);
  }
  torch::Tensor sum;
  for (const Layout& part : layout.parts()) {
    Rows rows = rows_of(params, part);
    const auto v = part.to_rows(x).to(rows.options.dtype().toScalarType());
    // The first position of every row holds a token.
    if (numbers.defined() && v.numel() > 0)
      rows.dropout = {dropout.seed, part.to_rows(numbers).select(1, 0), dropout.layer};
    // An empty batch must still be part of the autograd graph: its gradients are zero, not
    // undefined.
    const auto y = v.numel() == 0 ? v.repeat({1, 1, branches(), 1})
                                  : product(v, params_rows(params, part, rows), rows);
    const auto placed = part.from_rows(y.to(x.scalar_type()));
    sum = sum.defined() ? sum + placed : placed;
  }
  return sum;
}

torch::Tensor Mixer::mix_one_by_one(const torch::Tensor& x, const torch::Tensor& params,
                                    const Layout& layout) const {
  const auto v = layout.to_tokens(x), p = layout.to_tokens(params);
  const auto offsets = layout.sequences(x.size(0), x.size(1)).offsets();
  std::vector<torch::Tensor> outputs;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int64_t begin = offsets[s], length = offsets[s + 1] - begin;
    const auto its_params = p.narrow(1, begin, length);
    const Rows rows = arithmetic_of(its_params);
    const auto type = rows.options.dtype().toScalarType();
    outputs.push_back(product(v.narrow(1, begin, length).to(type), its_params.to(type), rows)
                          .to(x.scalar_type()));
  }
  return layout.from_tokens(torch::cat(outputs, 1));
}

torch::Tensor Mixer::materialize(const torch::Tensor& params, int64_t L) const {
  return materialize(params, L, Layout());
}

torch::Tensor Mixer::materialize(const torch::Tensor& params, int64_t L,
                                 const Layout& layout) const {
  const std::string who = info().name + ": materialize";
  HYDRAMIX_CHECK_USAGE(info().linear, who, ": this mixer is no matrix; it is not linear in x (",
                       info().formula, "). Use mix(), or a mixer that is a matrix.");
  check_params(who, params, L, layout);
  check_weights_finite(info().name, *this);
  const Rows rows = rows_of(params, layout);
  if (rows.L == 0) return torch::zeros({rows.S, branches() * heads_.H, 0, 0}, rows.options);
  const auto p = params_rows(params, layout, rows);
  HYDRAMIX_CHECK(torch::isfinite(p).all().item<bool>(), who,
                 ": params hold a NaN or an infinity; a matrix built from them would mean nothing. "
                 "Look where they were computed.");
  auto M = matrix(p, rows);
  if (!rows.valid.defined()) return M;
  return M.masked_fill(
      ~(rows.valid.unsqueeze(1).unsqueeze(3) & rows.valid.unsqueeze(1).unsqueeze(2)), 0);
}

torch::Tensor Mixer::initial_response(const torch::Tensor& params, const Layout& layout) const {
  check_params(info().name + ": initial_response", params, params.defined() ? params.size(1) : 0,
               layout);
  torch::Tensor sum;
  for (const Layout& part : layout.parts()) {
    const Rows rows = rows_of(params, part);
    if (rows.S == 0 || rows.L == 0) continue;
    const auto y = response(params_rows(params, part, rows), rows);
    if (!y.defined()) return {};
    const auto placed = part.from_rows(y.to(params.scalar_type()));
    sum = sum.defined() ? sum + placed : placed;
  }
  return sum;
}

}  // namespace hydramix
