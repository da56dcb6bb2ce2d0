// SPDX-License-Identifier: Apache-2.0
#include "models/image_input.h"

namespace hydramix {

ImageTransform input_transform(const ImageModelFolder& folder) {
  AugmentOptions options;
  options.size = folder.model->options().size;
  options.crop_fraction = folder.crop_fraction;
  options.interpolation = folder.interpolation;
  options.means = folder.means;
  options.deviations = folder.deviations;
  return ImageTransform(options);
}

torch::Tensor image_input(const ImageModelFolder& folder, const Image& image) {
  const auto transform = input_transform(folder);
  auto pixels = torch::empty({1, 3, transform.size(), transform.size()});
  transform.evaluate(image, std::span(pixels.data_ptr<float>(), transform.values()));
  return pixels;
}

torch::Tensor image_outputs(const ImageModelFolder& folder, const torch::Tensor& pixels,
                            const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  auto model = folder.model;
  return model->forward(pixels.to(device)).to(torch::kCPU, torch::kFloat64).contiguous();
}

}  // namespace hydramix
