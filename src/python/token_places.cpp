// SPDX-License-Identifier: Apache-2.0
#include "python/token_places.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

// A mask of integers 0 and 1 as bool; Layout refuses any other.
torch::Tensor as_bool(const torch::Tensor& mask) {
  if (!torch::isIntegralType(mask.scalar_type(), /*includeBool=*/false) ||
      !((mask == 0) | (mask == 1)).all().item<bool>())
    return mask;
  return mask.to(torch::kBool);
}

// Whether any row of the mask has padding between its tokens.
bool has_holes(const torch::Tensor& mask) {
  if (mask.dim() != 2 || mask.scalar_type() != torch::kBool) return false;
  const auto before = mask.cumsum(1) > 0, after = mask.flip({1}).cumsum(1).flip({1}) > 0;
  return (before & after & ~mask).any().item<bool>();
}

}  // namespace

TokenPlaces::TokenPlaces(const torch::Tensor& input, const torch::Tensor& given,
                         const torch::Tensor& cu_seqlens) {
  HYDRAMIX_CHECK_USAGE(input.dim() >= 2, "expected an input (B, L, ...); got shape ", input.sizes(),
                       ".");
  HYDRAMIX_CHECK_USAGE(!given.defined() || !cu_seqlens.defined(),
                       "give attention_mask or cu_seqlens, not both.");
  const auto mask = given.defined() ? as_bool(given) : given;
  try {
    if (cu_seqlens.defined()) {
      layout_ = Layout::packed(cu_seqlens);
    } else if (mask.defined() && has_holes(mask)) {
      order_ = torch::argsort(mask.logical_not(), /*stable=*/true, 1);
      inverse_ = torch::argsort(order_, /*stable=*/true, 1);
      layout_ = Layout::padded(mask.gather(1, order_));
    } else if (mask.defined()) {
      layout_ = Layout::padded(mask);
    }
    layout_.check("hydramix", input.size(0), input.size(1));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

torch::Tensor TokenPlaces::reordered(const torch::Tensor& t, const torch::Tensor& order) {
  if (!t.defined() || !order.defined()) return t;
  std::vector<int64_t> shape(t.dim(), 1);
  shape[0] = order.size(0);
  shape[1] = order.size(1);
  return t.gather(1, order.to(t.device()).view(shape).expand(t.sizes()));
}

}  // namespace hydramix
