// SPDX-License-Identifier: Apache-2.0
#include "hydramix/image_model.h"

#include <algorithm>

#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "hydramix/weights.h"
#include "models/encoder_parts.h"
#include "ops/described.h"
#include "ops/projection.h"

namespace hydramix {
namespace {

constexpr int64_t kChannels = 3;
constexpr const char* kPositions = "vit.embeddings.position_embeddings";

// The grid of patches is the image's.
ImageModelOptions on_the_grid(ImageModelOptions options) {
  check_image_model(options);
  options.block.mixer_options.grid_width = options.grid();
  return options;
}

// (B, 3, h p, w p) -> (B, h w, 3 p p): each row is a patch as a convolution's kernel sees it.
torch::Tensor unfolded(const torch::Tensor& pixels, int64_t p) {
  const int64_t B = pixels.size(0), h = pixels.size(2) / p, w = pixels.size(3) / p;
  return pixels.reshape({B, kChannels, h, p, w, p})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({B, h * w, kChannels * p * p});
}

}  // namespace

void check_image_model(const ImageModelOptions& options) {
  validate(options);
  HYDRAMIX_CHECK_USAGE(options.size % options.patch == 0, "model.patch: patches of ", options.patch,
                       " pixels do not fill an image of ", options.size,
                       ". Choose a patch that divides model.size.");
  const auto& block = options.block;
  const auto info = mixer_info(block.mixer, block.mixer_options);
  HYDRAMIX_CHECK_USAGE(options.pooling != "first" || !info.causal,
                       "model.pooling: a first token "
                       "sees no patch through ",
                       block.mixer, ", which is causal. Choose mean or last.");
  HYDRAMIX_CHECK_USAGE(options.pooling == "mean" || block.mixer != "s4nd",
                       "model.pooling: a class token has no place in the grid of s4nd. Choose "
                       "mean.");
  const int64_t longest = block.mixer_options.max_length;
  HYDRAMIX_CHECK_USAGE(info.extendable || options.length() <= longest,
                       "model.block.mixer_options.max_length: ", longest, " is less than the ",
                       options.length(), " tokens of an image; ", block.mixer,
                       " takes no longer sequences. Set it to ", options.length(), ".");
}

ImageModelImpl::ImageModelImpl(const ImageModelOptions& options) : options_(on_the_grid(options)) {
  HYDRAMIX_CHECK_USAGE(options.classes > 0, "model.classes: is 0; expected the number of classes.");
  const int64_t d_model = options.block.d_model;
  const InitialWeights initial{options.initial_deviation, "truncated_normal"};
  auto vit = scope(*this, "vit");
  auto embeddings = scope(*vit, "embeddings");
  const auto embedding = [&](const char* name, int64_t length) {
    auto weight = embeddings->register_parameter(name, torch::empty({1, length, d_model}));
    draw_weight(weight, initial);
    return weight;
  };
  if (options.pooling != "mean") cls_token = embedding("cls_token", 1);
  if (options.positions) position_embeddings = embedding("position_embeddings", options.length());
  patches = scope(*embeddings, "patch_embeddings")
                ->register_module("projection",
                                  Projection(kChannels * options.patch * options.patch, d_model));
  encoder = vit->register_module(
      "encoder", LayerStack(LayerStackOptions{.layers = options.layers,
                                              .pre_norm = true,
                                              .stochastic_depth = options.stochastic_depth,
                                              .recompute = options.recompute,
                                              .mlp = options.mlp,
                                              .block = options_.block}));
  classifier = register_module("classifier", torch::nn::Linear(d_model, options.classes));
  initialize_as_bert(*this, initial);
}

torch::Tensor ImageModelImpl::embed(const torch::Tensor& pixels) const {
  const auto type = product_type(pixels, precision_);
  auto x = project(unfolded(pixels.to(type), options_.patch), patches->weight, patches->bias,
                   patches->copy(), type);
  if (cls_token.defined()) {
    const auto token = cls_token.to(type).expand({x.size(0), 1, x.size(2)});
    x = options_.pooling == "first" ? torch::cat({token, x}, 1) : torch::cat({x, token}, 1);
  }
  return position_embeddings.defined() ? x + position_embeddings.to(type) : x;
}

torch::Tensor ImageModelImpl::forward(
    const torch::Tensor& pixels, const DropoutKey& dropout,
    const std::function<void(const torch::Tensor&)>& observe) const {
  HYDRAMIX_CHECK(pixels.defined() && pixels.dim() == 4 && pixels.size(1) == kChannels &&
                     pixels.size(2) == options_.size && pixels.size(3) == options_.size &&
                     pixels.is_floating_point(),
                 "image model: pixels must be (B, 3, ", options_.size, ", ", options_.size,
                 ") of floating point; got ", described(pixels), ".");
  auto x = embed(pixels);
  if (observe) observe(x);
  const auto layout = Layout().for_shape(x.size(0), x.size(1));
  x = encoder->forward(x, layout, dropout, observe);
  // One row per image costs little, and a bfloat16 logit would have two digits.
  x = x.to(classifier->weight.scalar_type());
  const auto row = options_.pooling == "mean"    ? x.mean(1)
                   : options_.pooling == "first" ? x.select(1, 0)
                                                 : x.select(1, -1);
  return project(row, classifier->weight, classifier->bias);
}

void ImageModelImpl::take_weights(const std::map<std::string, torch::Tensor>& weights,
                                  int64_t grid) {
  auto fitting = weights;
  const auto own = named_weights(*this);
  for (const char* name : {"classifier.weight", "classifier.bias"})
    if (const auto found = fitting.find(name);
        found != fitting.end() && found->second.sizes() != own.at(name).sizes())
      found->second = own.at(name);
  if (const auto found = fitting.find(kPositions);
      found != fitting.end() && position_embeddings.defined())
    found->second = interpolated_positions(found->second, grid, options_.grid(), options_.pooling);
  load_weights(*this, fitting);
}

void ImageModelImpl::set_precision(torch::ScalarType precision) {
  HYDRAMIX_CHECK_USAGE(precision == torch::kFloat32 || precision == torch::kBFloat16,
                       "image model: products are computed in float32 or bfloat16; got ", precision,
                       ".");
  precision_ = precision;
}

torch::Tensor interpolated_positions(const torch::Tensor& positions, int64_t from, int64_t to,
                                     const std::string& pooling) {
  if (from == to) return positions;
  const int64_t tokens = pooling == "mean" ? 0 : 1, d_model = positions.size(2);
  HYDRAMIX_CHECK(positions.size(1) == from * from + tokens, "image model: ", positions.size(1),
                 " positions; expected ", from * from + tokens, ", one for each token of ", from,
                 " x ", from, " patches.");
  const int64_t first = pooling == "first" ? 1 : 0;
  const auto grid = positions.narrow(1, first, from * from)
                        .to(torch::kFloat64)
                        .view({1, from, from, d_model})
                        .permute({0, 3, 1, 2});
  const auto larger = torch::upsample_bicubic2d(grid, {to, to}, /*align_corners=*/false)
                          .permute({0, 2, 3, 1})
                          .reshape({1, to * to, d_model})
                          .to(positions.scalar_type());
  const auto token = positions.narrow(1, first == 1 ? 0 : from * from, tokens);
  return first == 1 ? torch::cat({token, larger}, 1) : torch::cat({larger, token}, 1);
}

int64_t parameter_count(const ImageModelOptions& options) {
  auto small = options;
  small.layers = 1;
  small.classes = 1;
  int64_t rest = 0, layer = 0;
  for (const auto& item : ImageModel(small)->named_parameters())
    (item.key().starts_with("vit.encoder.layer.") ? layer : rest) += item.value().numel();
  return rest + options.layers * layer + (options.classes - 1) * (options.block.d_model + 1);
}

}  // namespace hydramix
