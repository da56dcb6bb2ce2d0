// SPDX-License-Identifier: Apache-2.0
#include "serve/served_images.h"

#include <algorithm>

#include "models/device.h"
#include "models/image_input.h"
#include "ops/graph.h"
#include "train/train_images.h"

namespace hydramix::serve {
namespace {

struct ServedImages : ModelFacts {
  ServedImages(ImageModelFolder folder, const TextModelOptions& given)
      : opened(std::move(folder)),
        device(choose_device(given.device, 0)),
        own_streams(given.for_serving && can_capture(device)) {
    opened.model->eval();
    opened.model->to(device);
    if (own_streams) opened.model->set_precision(torch::kBFloat16);
    const auto& options = opened.model->options();
    kind = "images";
    labels = opened.classes;
    mixer = options.block.mixer;
    pooling = options.pooling;
    layers = options.layers;
    width = options.block.d_model;
    for (const auto& parameter : opened.model->parameters()) parameters += parameter.numel();
    transform = input_transform(opened);
    image_tokens = options.length();
  }
  ImageModelFolder opened;
  torch::Device device;
  bool own_streams;
};

std::vector<double> numbers(const torch::Tensor& row) {
  return {row.data_ptr<double>(), row.data_ptr<double>() + row.numel()};
}

}  // namespace

std::shared_ptr<ModelFacts> open_served_images(const std::filesystem::path& folder,
                                               const TextModelOptions& options) {
  return std::make_shared<ServedImages>(load_image_model(image_model_folder(folder)), options);
}

std::vector<WorkResult> image_results(const ModelFacts& model, std::span<const Work* const> works) {
  const auto& served = dynamic_cast<const ServedImages&>(model);
  if (served.own_streams) take_own_stream(served.device);
  const int64_t size = model.transform->size();
  int64_t count = 0;
  for (const auto* work : works) count += std::ssize(work->images);
  const auto pixels = torch::empty({count, 3, size, size});
  float* next = pixels.data_ptr<float>();
  for (const auto* work : works)
    for (const auto& image : work->images) next = std::copy(image.begin(), image.end(), next);
  const auto outputs = image_outputs(served.opened, pixels, served.device);
  if (!torch::isfinite(outputs).all().item<bool>())
    throw Error(
        "the answer is not finite. The model's weights are damaged or diverged in training: take "
        "an earlier checkpoint.");
  const auto shares = outputs.softmax(1);
  std::vector<WorkResult> results(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    results[static_cast<std::size_t>(i)].outputs = numbers(outputs[i]);
    results[static_cast<std::size_t>(i)].shares = numbers(shares[i]);
  }
  return results;
}

}  // namespace hydramix::serve
