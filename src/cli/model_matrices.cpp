// SPDX-License-Identifier: Apache-2.0
#include "cli/model_matrices.h"

#include <cstdio>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "base/quotes.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "images/decode.h"
#include "images/image_folder.h"
#include "models/folder_files.h"
#include "models/image_input.h"
#include "models/layer_matrices.h"
#include "models/matrix_picture.h"
#include "models/text_model.h"
#include "train/train_images.h"
#include "train/trained_model.h"
#include "view/npy.h"
#include "view/png.h"
#include "view/svg.h"

namespace hydramix {
namespace {

struct ModelMatrix {
  int64_t layer, head;  // from 0
  torch::Tensor M;      // (L, L) float64
};

// The matrices that the options choose.
std::vector<ModelMatrix> chosen(const std::vector<torch::Tensor>& layers,
                                const ModelMatrixOptions& o) {
  const auto count = static_cast<int64_t>(layers.size());
  HYDRAMIX_CHECK_USAGE(o.layer <= count, "matrix: --layer ", o.layer, ": the model has ", count,
                       " layers.");
  std::vector<ModelMatrix> matrices;
  for (int64_t layer = 0; layer < count; ++layer) {
    if (o.layer > 0 && layer != o.layer - 1) continue;
    const auto& heads = layers[static_cast<std::size_t>(layer)];
    HYDRAMIX_CHECK_USAGE(o.head <= heads.size(0), "matrix: --head ", o.head, ": layer ", layer + 1,
                         " has ", heads.size(0), " matrices.");
    int64_t best = 0;
    for (int64_t h = 0; h < heads.size(0); ++h) {
      if (o.head == 0 && o.layer > 0) matrices.push_back({layer, h, heads[h]});
      if (share_of_others(heads[h]) > share_of_others(heads[best])) best = h;
    }
    if (o.head > 0) matrices.push_back({layer, o.head - 1, heads[o.head - 1]});
    if (o.head == 0 && o.layer == 0) matrices.push_back({layer, best, heads[best]});
  }
  return matrices;
}

void write_matrices(const std::vector<ModelMatrix>& matrices,
                    const std::vector<std::string>& places, const ModelMatrixOptions& o) {
  const auto extension = std::filesystem::path(o.out).extension().string();
  if (extension == ".npy") {
    std::vector<torch::Tensor> all;
    for (const auto& matrix : matrices) all.push_back(matrix.M);
    const auto M = torch::stack(all).contiguous();
    write_npy(o.out, M.sizes().vec(), std::span<const double>(M.data_ptr<double>(), M.numel()));
  } else if (extension == ".safetensors") {
    std::map<std::string, torch::Tensor> all;
    for (const auto& [layer, head, M] : matrices)
      all.emplace(concat("layer.", layer + 1, ".head.", head + 1), M.contiguous());
    save_tensors(o.out, all, {{"tokens", nlohmann::json(places).dump()}});
  } else {
    std::vector<MatrixPicture> page;
    for (const auto& [layer, head, M] : matrices) {
      auto picture = matrix_picture(concat("layer ", layer + 1, ", head ", head + 1), M, o.scale);
      picture.row_labels = picture.col_labels = places;
      page.push_back(std::move(picture));
    }
    if (extension == ".png")
      write_png(o.out, page, {});
    else
      write_svg(o.out, page,
                {.title = std::string(clipped(o.text.empty() ? o.image : o.text, 120))});
  }
}

// The matrices of every layer, and the names of the positions that they mix.
struct SequenceMatrices {
  std::vector<torch::Tensor> layers;
  std::vector<std::string> places;
};

// Patches as "row,column" from 1, and the class token.
std::vector<std::string> patch_names(const ImageModelOptions& options) {
  std::vector<std::string> names;
  if (options.pooling == "first") names.push_back("class");
  for (int64_t row = 1; row <= options.grid(); ++row)
    for (int64_t column = 1; column <= options.grid(); ++column)
      names.push_back(concat(row, ",", column));
  if (options.pooling == "last") names.push_back("class");
  return names;
}

SequenceMatrices of_image(const ModelMatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE(!o.image.empty() && o.text.empty(), "matrix: ", o.model,
                       " is a model of images. Give --image, whose patches it mixes, and no "
                       "--text.");
  auto opened = load_image_model(image_model_folder(o.model, o.which));
  opened.model->eval();
  const auto bytes = read_file(o.image, kImageFile);
  const auto image =
      decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, o.image);
  return {layer_matrices(opened.model, image_input(opened, image)),
          patch_names(opened.model->options())};
}

SequenceMatrices of_text(const ModelMatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.image.empty(), "matrix: --image is for a model of images, and ", o.model,
                       " reads text. Give --text.");
  HYDRAMIX_CHECK_USAGE(!o.text.empty(), "matrix: --model needs --text, whose tokens it mixes.");
  const auto model =
      open_text_model(o.model, o.which, Wanted::kAny, {.max_length = o.tokens}, o.tokens);
  const auto encode_one = [&](int64_t n) { return model->tokenizer().encode(o.text, n); };
  const auto encoding = encode_one(model->max_length());
  if (model->tokens_of(encoding, encode_one).cut)
    std::fprintf(stderr, "the text has %lld tokens; only the first %lld are drawn (--tokens)\n",
                 static_cast<long long>(std::ssize(encode_one(0).ids)),
                 static_cast<long long>(model->max_length()));
  std::vector<std::string> tokens;
  for (const auto id : encoding.ids) tokens.push_back(model->tokenizer().token(id));
  std::vector<torch::Tensor> layers;
  model->for_each_batch(std::span(&encoding, 1), [&](auto, const PackedBatch& batch) {
    layers = layer_matrices(model->module(), model->encoder_options(),
                            [&](const auto& observe) { model->hidden(batch, observe); });
  });
  return {layers, tokens};
}

}  // namespace

int save_model_matrices(const ModelMatrixOptions& o) {
  auto inputs = model_files(o.model);
  if (!o.image.empty()) inputs.emplace_back(o.image);
  check_not_an_input("--out", o.out, inputs);
  const auto [layers, places] = is_of_images(o.model) ? of_image(o) : of_text(o);
  const auto matrices = chosen(layers, o);
  write_matrices(matrices, places, o);
  std::string names;
  for (const auto& [layer, head, M] : matrices)
    names += concat(names.empty() ? "" : ", ", layer + 1, ".", head + 1);
  std::printf("wrote %s: %lld x %lld, layer.head %s\n", o.out.c_str(),
              static_cast<long long>(places.size()), static_cast<long long>(places.size()),
              names.c_str());
  return 0;
}

}  // namespace hydramix
