// SPDX-License-Identifier: Apache-2.0
#include "reproduce/learned_matrices.h"

#include <set>

#include "hydramix/error.h"
#include "models/layer_matrices.h"
#include "models/matrix_picture.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

// Words of the built-in language, so that its tokenizer has a token for each; BERT's has one too.
const std::string kSentence =
    "what colour is the map ? green . before she left , anna was sad . surely the map looks green "
    ".";

}  // namespace

std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& run) {
  const auto trained = open_trained_model(run / "model");
  const auto& block = trained.model->options().block;
  if (!mixer_info(block.mixer, block.mixer_options).linear) return {};
  torch::NoGradGuard no_grad;
  const auto encoding = trained.tokenizer.encode(kSentence, 0);
  const auto ids =
      torch::tensor(std::vector<int64_t>(encoding.ids.begin(), encoding.ids.end()), torch::kInt64)
          .unsqueeze(0);
  std::vector<std::string> tokens;
  for (const auto id : encoding.ids) tokens.push_back(trained.tokenizer.token(id));
  const auto layers =
      layer_matrices(*trained.model, trained.model->options(),
                     [&](const auto& observe) { trained.model->encode(ids, {}, {}, {}, observe); });
  std::vector<MatrixPicture> pictures;
  const std::set<std::size_t> shown{0, layers.size() / 2, layers.size() - 1};
  for (const auto layer : shown) {
    int64_t best = 0;
    for (int64_t h = 0; h < layers[layer].size(0); ++h)
      if (share_of_others(layers[layer][h]) > share_of_others(layers[layer][best])) best = h;
    pictures.push_back(matrix_picture(concat("layer ", layer + 1, ", head ", best + 1),
                                      layers[layer][best].contiguous()));
    pictures.back().row_labels = pictures.back().col_labels = tokens;
  }
  return pictures;
}

}  // namespace hydramix
