// SPDX-License-Identifier: Apache-2.0
#include "models/size_check.h"

#include <algorithm>

#include "hydramix/error.h"
#include "hydramix/registry.h"

namespace hydramix {
namespace {

// Columns of in_proj and rows of out_proj for each channel: at least x and the output, and the
// gates of the style (models/block.cpp).
double projections_per_channel(const std::string& style) {
  if (style == "bare") return 0;
  return style == "plain" ? 2 : style == "gated" ? 4 : 3;
}

}  // namespace

void check_size(const BlockOptions& block, double rows, double layers, double held,
                const std::string& origin) {
  const Heads heads = block.heads();
  const auto& m = block.mixer_options;
  const auto d_model = static_cast<double>(block.d_model), P = static_cast<double>(m.max_length);
  double least = d_model * (rows + layers * projections_per_channel(block.style) *
                                       static_cast<double>(heads.channels()));
  if (block.mixer == "dense") least += layers * static_cast<double>(heads.H) * P * P;
  if (block.mixer == "linformer") least += 2 * layers * P * static_cast<double>(m.projected_length);
  if (block.mixer == "mlp_mixer_nonlinear")
    least += 2 * layers * P * (m.token_hidden == 0 ? P : static_cast<double>(m.token_hidden));
  if (block.mixer == "kaleidoscope")
    least += 4 * layers * static_cast<double>(heads.H) * P *
             static_cast<double>(m.kaleidoscope_width * m.kaleidoscope_expansion);
  const auto largest = static_cast<double>(
      std::max({m.d_state, m.qk_dim, block.d_conv, m.filter_width, m.filter_features}));
  const bool by_place = !mixer_info(block.mixer, m).extendable && block.mixer != "vandermonde_dft";
  HYDRAMIX_CHECK(least <= held && largest <= held && (!by_place || P <= held), origin,
                 " describes a module of at least ", std::max({least, largest, by_place ? P : 0}),
                 " weights, but the file holds ", held, ". Do its sizes belong to these weights?");
}

void check_size(const BertOptions& options, double held, const std::string& origin) {
  double rows = static_cast<double>(options.vocab) + static_cast<double>(options.positions) +
                static_cast<double>(options.type_vocab);
  const auto& mlp = options.mlp;
  if (mlp.kind != "none")
    rows += 2 * static_cast<double>(options.layers) * static_cast<double>(mlp.width) /
            static_cast<double>(mlp.blocks);
  check_size(options.block, rows, static_cast<double>(options.layers), held, origin);
}

}  // namespace hydramix
