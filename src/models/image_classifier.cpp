// SPDX-License-Identifier: Apache-2.0
#include "hydramix/image_classifier.h"

#include <algorithm>
#include <cmath>

#include "base/read_file.h"
#include "hydramix/model_folder.h"
#include "images/decode.h"
#include "images/image_folder.h"
#include "models/device.h"
#include "models/image_input.h"

namespace hydramix {

struct ImageClassifier::State {
  State(ImageModelFolder folder, const ImageClassifierOptions& options)
      : opened(std::move(folder)),
        transform(input_transform(opened)),
        device(choose_device(options.device, 0)),
        batch(options.batch) {
    opened.model->eval();
    opened.model->to(device);
  }

  ImageModelFolder opened;
  ImageTransform transform;
  torch::Device device;
  int64_t batch;
};

ImageClassifier::ImageClassifier(std::shared_ptr<const State> state) : state_(std::move(state)) {}

ImageClassifier ImageClassifier::open(const std::filesystem::path& folder,
                                      const ImageClassifierOptions& options) {
  HYDRAMIX_CHECK_USAGE(
      options.device == "auto" || options.device == "cpu" || options.device == "cuda",
      "device is '", options.device, "'; expected 'auto', 'cpu' or 'cuda'.");
  HYDRAMIX_CHECK_USAGE(options.batch >= 1, "batch is ", options.batch, "; expected at least 1.");
  return ImageClassifier(std::make_shared<const State>(load_image_model(folder), options));
}

std::vector<ImageClassifier::Answer> ImageClassifier::classify(
    std::span<const std::filesystem::path> files) const {
  const auto& transform = state_->transform;
  const int64_t size = transform.size(), values = static_cast<int64_t>(transform.values());
  std::vector<Answer> answers;
  for (std::size_t begin = 0; begin < files.size();) {
    const auto count = std::min(static_cast<std::size_t>(state_->batch), files.size() - begin);
    const auto pixels = torch::empty({static_cast<int64_t>(count), 3, size, size});
    for (std::size_t i = 0; i < count; ++i) {
      const auto& path = files[begin + i];
      try {
        const auto bytes = read_file(path, kImageFile);
        const auto image = decode_image(
            {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path.string());
        transform.evaluate(image,
                           std::span(pixels.data_ptr<float>() + static_cast<int64_t>(i) * values,
                                     transform.values()));
      } catch (const Error& error) {
        throw ImageError(begin + i, error.what());
      }
    }
    const auto probabilities = image_outputs(state_->opened, pixels, state_->device).softmax(1);
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = probabilities[static_cast<int64_t>(i)];
      Answer answer;
      answer.probabilities.assign(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
      const auto best = std::max_element(answer.probabilities.begin(), answer.probabilities.end());
      if (!std::isfinite(*best))
        throw ImageError(begin + i,
                         files[begin + i].string() +
                             ": the answer is not finite. The model's weights are damaged or "
                             "diverged in training: take an earlier checkpoint.");
      answer.number = static_cast<std::size_t>(best - answer.probabilities.begin());
      answer.label = classes()[answer.number];
      answers.push_back(std::move(answer));
    }
    begin += count;
  }
  return answers;
}

ImageClassifier::Answer ImageClassifier::classify(const std::filesystem::path& file) const {
  return classify(std::span(&file, 1)).front();
}

const std::vector<std::string>& ImageClassifier::classes() const { return state_->opened.classes; }
int64_t ImageClassifier::size() const { return state_->transform.size(); }
int64_t ImageClassifier::batch() const { return state_->batch; }

}  // namespace hydramix
