// SPDX-License-Identifier: Apache-2.0
#include "reproduce/learned_matrices.h"

#include <set>

#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "models/image_input.h"
#include "models/layer_matrices.h"
#include "models/matrix_picture.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

// Words of the built-in language, so that its tokenizer has a token for each; BERT's has one too.
const std::string kSentence =
    "what colour is the map ? green . before she left , anna was sad . surely the map looks green "
    ".";

bool is_matrix(const BlockOptions& block) {
  return mixer_info(block.mixer, block.mixer_options).linear;
}

std::vector<MatrixPicture> shown_matrices(const std::vector<torch::Tensor>& layers) {
  std::vector<MatrixPicture> pictures;
  for (const auto layer : std::set<std::size_t>{0, layers.size() / 2, layers.size() - 1}) {
    int64_t best = 0;
    double most = -1;
    for (int64_t h = 0; h < layers[layer].size(0); ++h)
      if (const double share = share_of_others(layers[layer][h]); share > most) {
        most = share;
        best = h;
      }
    pictures.push_back(matrix_picture(concat("layer ", layer + 1, ", head ", best + 1),
                                      layers[layer][best].contiguous()));
  }
  return pictures;
}

}  // namespace

std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& folder) {
  const auto trained = open_trained_model(folder);
  const auto& model = trained.model;
  if (!is_matrix(model->options().block)) return {};
  const torch::NoGradGuard no_grad;
  const auto encoding = trained.tokenizer.encode(kSentence, 0);
  const auto ids =
      torch::tensor(std::vector<int64_t>(encoding.ids.begin(), encoding.ids.end()), torch::kInt64)
          .unsqueeze(0);
  return shown_matrices(layer_matrices(*model, model->options(), [&](const auto& observe) {
    model->encode(ids, {}, {}, {}, observe);
  }));
}

std::vector<MatrixPicture> learned_matrices(const std::filesystem::path& folder,
                                            const Image& image) {
  auto opened = load_image_model(folder);
  if (!is_matrix(opened.model->options().block)) return {};
  opened.model->eval();
  return shown_matrices(layer_matrices(opened.model, image_input(opened, image)));
}

}  // namespace hydramix
