// SPDX-License-Identifier: Apache-2.0
// Classifies images with any mixer, in the layout of ViT: an image is a sequence of patches.
//
//   e      = W patch + b                       per patch, rows from the top, patches from the left:
//                                              a convolution whose stride is its width
//   e      = [class; e] or [e; class]          pooling: first, or last for a causal mixer
//   x      = layers(e + position)              pre-norm (layer_stack.h); positions are optional
//   row    = mean of x, or the class token's x
//   logits = classifier(row)
//
// Dosovitskiy et al. 2021, An Image is Worth 16x16 Words: Transformers for Image Recognition at
// Scale. Weight names outside the layers are Hugging Face's: vit.embeddings.cls_token,
// vit.embeddings.position_embeddings, vit.embeddings.patch_embeddings.projection.*, classifier.*.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "hydramix/layer_stack.h"

namespace hydramix {

struct ImageModelOptions {
  int64_t size = 224;
  int64_t patch = 16;
  int64_t classes = 0;
  int64_t layers = 24;
  bool positions = false;
  std::string pooling = "mean";
  double stochastic_depth = 0;
  bool recompute = false;
  double initial_deviation = 0.02;
  MlpOptions mlp;
  BlockOptions block;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("size", self.size, Range{1, 1 << 14}, "width and height of an image in pixels");
    v("patch", self.patch, Range{1, 1 << 14}, "width and height of a patch; divides size");
    v("classes", self.classes, Range{0, 1 << 20}, "number of classes; 0: those of the data");
    v("layers", self.layers, Range{1, 4096}, "number of blocks");
    v("positions", self.positions,
      "learned position embeddings; attention needs them, Hydra and Mamba do not");
    v("pooling", self.pooling, Choices{"mean", "first", "last"},
      "vector of an image: the mean over its patches, or a class token before or after them; a "
      "causal mixer needs mean or last");
    v("stochastic_depth", self.stochastic_depth, Range{0.0, 0.99},
      "share of images for which the last layer is left out in training; rises linearly from 0 at "
      "the first layer");
    v("recompute", self.recompute,
      "keep only the input of each layer for the backward pass and recompute the rest");
    v("initial_deviation", self.initial_deviation, Range{1e-6, 1.0},
      "standard deviation of initial linear weights, drawn again beyond two deviations");
    v("mlp", self.mlp, "the MLP after every block");
    v("block", self.block, "the block of every layer");
  }

  int64_t grid() const { return size / patch; }  // patches in a row
  // Tokens of an image, the class token included.
  int64_t length() const { return grid() * grid() + (pooling == "mean" ? 0 : 1); }
};

// Throws UsageError unless these options describe a model: sizes, pooling and mixer fit together.
void check_image_model(const ImageModelOptions& options);

class ImageModelImpl : public torch::nn::Module {
 public:
  // The grid of patches replaces mixer_options.grid_width.
  explicit ImageModelImpl(const ImageModelOptions& options);

  // pixels (B, 3, size, size), normalised -> logits (B, classes), float32 (float64 for a float64
  // model). In training mode with stochastic depth or another dropout the key is needed, with a
  // number for every image. `observe`, if given, is called with the embedding and then with the
  // output of every layer.
  torch::Tensor forward(const torch::Tensor& pixels, const DropoutKey& dropout = {},
                        const std::function<void(const torch::Tensor&)>& observe = {}) const;

  // The weights of a model of the same layers for images of another size or other classes, fit to
  // this one: positions are interpolated (bicubic), and where the number of classes differs the
  // classifier of this model stays as it is. Throws Error, before any change, where they do not
  // fit.
  void take_weights(const std::map<std::string, torch::Tensor>& weights, int64_t grid);

  // The type of the products in the layers: float32, the default, or on a GPU bfloat16, which the
  // activations between layers then have too. Weights and their gradients stay float32.
  void set_precision(torch::ScalarType precision);
  const ImageModelOptions& options() const { return options_; }

 private:
  torch::Tensor embed(const torch::Tensor& pixels) const;  // (B, length, d_model)

  ImageModelOptions options_;
  torch::ScalarType precision_ = torch::kFloat32;
  Projection patches{nullptr};
  torch::Tensor cls_token;            // (1, 1, d_model); undefined with pooling mean
  torch::Tensor position_embeddings;  // (1, length, d_model); undefined without positions
  LayerStack encoder{nullptr};
  torch::nn::Linear classifier{nullptr};
};
TORCH_MODULE(ImageModel);

// positions (1, length, d_model) of a grid of `from` x `from` patches, with the class token's at
// the position that `pooling` gives it, for a grid of `to` x `to`.
torch::Tensor interpolated_positions(const torch::Tensor& positions, int64_t from, int64_t to,
                                     const std::string& pooling);

// The number of parameters of a model, which is not built whole.
int64_t parameter_count(const ImageModelOptions& options);

}  // namespace hydramix
