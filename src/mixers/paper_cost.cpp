// SPDX-License-Identifier: Apache-2.0
#include "mixers/paper_cost.h"

namespace hydramix {

std::string paper_cost(const MixerInfo& info) {
  const auto is = [&](const char* name) { return info.matrix_class.starts_with(name); };
  if (is("Dense")) return "O(L^2)";
  if (is("Toeplitz") || is("Butterfly") || is("Monarch")) return "O(L log L)";
  if (is("DFT") || is("Vandermonde") || is("Cauchy")) return "O(L log^2 L)";
  return is("Low-rank") || is("Semiseparable") || is("Quasiseparable") ? "O(L)" : "";
}

}  // namespace hydramix
