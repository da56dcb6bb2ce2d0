// SPDX-License-Identifier: Apache-2.0
// The part of a mixer that is the same for all: checks, the change to rows and back, arithmetic in
// float32 or float64, and the dense product.
#include "hydramix/mixer.h"

#include "hydramix/error.h"
#include "ops/arithmetic.h"

namespace hydramix {
torch::Tensor dense_apply(const torch::Tensor& M, const torch::Tensor& x) {
  const int64_t branches = M.size(1) / x.size(2);
  auto v = x.permute({0, 2, 1, 3});                     // (S, H, L, P)
  if (branches > 1) v = v.repeat({1, branches, 1, 1});  // (S, branches H, L, P)
  return torch::matmul(M, v).permute({0, 2, 1, 3});
}

int64_t Mixer::projection_width() const {
  int64_t width = 0;
  for (const auto& columns : projection()) width += columns.width;
  return width;
}

torch::Tensor Mixer::derive(const torch::Tensor& projected, const torch::Tensor&) const {
  return projected;
}

torch::Tensor Mixer::product(const torch::Tensor& x, const torch::Tensor& params,
                             const Rows& rows) const {
  return dense_apply(matrix(params, rows), x);
}

torch::Tensor Mixer::response(const torch::Tensor&, const Rows&) const { return {}; }

Rows Mixer::arithmetic_of(const torch::Tensor& t) const {
  const auto type = arithmetic_type(info().name, "the input", t);
  return {.S = t.size(0), .L = t.size(1), .valid = {}, .options = t.options().dtype(type)};
}

torch::Tensor Mixer::weight(const torch::Tensor& w, const Rows& rows) const {
  return widened(info().name, w, rows.options);
}

torch::Tensor Mixer::columns(const torch::Tensor& params, int64_t begin, int64_t heads,
                             int64_t width) {
  return params.narrow(2, begin, heads * width).unflatten(2, std::vector<int64_t>{heads, width});
}

Rows Mixer::check_params(const char* who, const torch::Tensor& params, int64_t L,
                         const Layout& layout) const {
  const std::string where = concat(info().name, ": ", who);
  HYDRAMIX_CHECK(params.defined() && params.dim() == 3 && params.size(2) == params_width() &&
                     params.size(1) == L,
                 where, ": params must be (B, L, ", params_width(), ") with L = ", L, "; got ",
                 params.defined() ? concat("shape ", params.sizes()) : "an undefined tensor",
                 ". They are what derive() makes of the columns that projection() lists.");
  layout.check(where, params.size(0), L);
  const int64_t longest = layout.is_full() ? L : layout.longest();
  HYDRAMIX_CHECK(
      info().extendable || longest <= options_.max_length, where, ": a sequence of length ",
      longest, " is longer than max_length = ", options_.max_length,
      "; this matrix is data-independent and has no entries beyond it. Set max_length, cut the "
      "sequence, or take a mixer that is extendable (hydramix info mixers).");
  return Rows{.S = layout.is_full() ? params.size(0) : layout.valid().size(0),
              .L = longest,
              .valid = layout.is_full() ? torch::Tensor() : layout.valid().to(params.device()),
              .options = params.options().dtype(arithmetic_type(where, "params", params))};
}

torch::Tensor Mixer::params_rows(const torch::Tensor& params, const Layout& layout,
                                 const Rows& rows) const {
  return layout.to_rows(params).to(rows.options.dtype().toScalarType());
}

torch::Tensor Mixer::mix(const torch::Tensor& x, const torch::Tensor& params,
                         const Layout& layout) const {
  HYDRAMIX_CHECK(x.defined() && x.dim() == 4 && x.size(2) == heads_.H && x.size(3) == heads_.P,
                 info().name, ": mix: x must be (B, L, H, P) with H = ", heads_.H,
                 ", P = ", heads_.P, "; got ",
                 x.defined() ? concat("shape ", x.sizes()) : "an undefined tensor",
                 ". Split its channels into heads first.");
  const Rows rows = check_params("mix", params, x.size(1), layout);
  HYDRAMIX_CHECK(params.size(0) == x.size(0) && params.scalar_type() == x.scalar_type() &&
                     params.device() == x.device(),
                 info().name, ": mix: x and params must agree in batch, dtype and device; got x ",
                 x.sizes(), " ", x.dtype(), " on ", x.device(), " and params ", params.sizes(), " ",
                 params.dtype(), " on ", params.device(), ".");
  if (x.numel() == 0 || rows.S == 0 || rows.L == 0)
    return x.new_zeros({x.size(0), x.size(1), branches() * heads_.H, heads_.P});
  const auto type = rows.options.dtype().toScalarType();
  const auto y = product(layout.to_rows(x).to(type), params_rows(params, layout, rows), rows);
  return layout.from_rows(y.to(x.scalar_type()));
}

torch::Tensor Mixer::materialize(const torch::Tensor& params, int64_t L) const {
  return materialize(params, L, Layout());
}

torch::Tensor Mixer::materialize(const torch::Tensor& params, int64_t L,
                                 const Layout& layout) const {
  const Rows rows = check_params("materialize", params, L, layout);
  check_weights_finite();
  if (rows.L == 0) return torch::zeros({rows.S, branches() * heads_.H, 0, 0}, rows.options);
  const auto p = params_rows(params, layout, rows);
  HYDRAMIX_CHECK(
      torch::isfinite(p).all().item<bool>(), info().name,
      ": materialize: params hold a NaN or an infinity; a matrix built from them would mean "
      "nothing. Look where they were computed.");
  const auto M = matrix(p, rows);
  if (!rows.valid.defined()) return M;
  return M.masked_fill(
      ~(rows.valid.unsqueeze(1).unsqueeze(3) & rows.valid.unsqueeze(1).unsqueeze(2)), 0);
}

torch::Tensor Mixer::initial_response(const torch::Tensor& params, const Layout& layout) const {
  const Rows rows =
      check_params("initial_response", params, params.defined() ? params.size(1) : 0, layout);
  if (params.size(0) == 0 || rows.S == 0 || rows.L == 0) return {};
  const auto y = response(params_rows(params, layout, rows), rows);
  return y.defined() ? layout.from_rows(y.to(params.scalar_type())) : y;
}

void Mixer::check_weights_finite() const {
  for (const auto& item : named_parameters())
    HYDRAMIX_CHECK(torch::isfinite(item.value()).all().item<bool>(), info().name, ": weight '",
                   item.key(),
                   "' holds a NaN or an infinity. Load it again from a sound checkpoint.");
}

}  // namespace hydramix
