// SPDX-License-Identifier: Apache-2.0
// Image classification as a task: the cross-entropy between the model's probabilities and soft
// targets, in which labels are smoothed and, with Mixup or CutMix, those of two images are mixed.
//
//   loss = - sum_c t_c log p_c         summed over the images
//
// An evaluation counts, for each class, the predicted classes of its images.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "hydramix/image_model.h"
#include "images/augment.h"
#include "images/image_batch.h"
#include "images/mixing.h"
#include "ops/host_copy.h"
#include "train/captured_steps.h"
#include "train/task.h"

namespace hydramix {

// Images by number; called from one thread at a time.
using ImageSource = std::function<ImageBatch(int64_t first, int64_t count)>;

struct ImageTrainingSettings {
  ImageSource training;    // of the endless order of training
  ImageSource validation;  // in order
  int64_t validation_images = 0;
  std::function<std::string(int64_t number)> name = {};  // of a training image, for messages
  AugmentOptions augment;                                // mixing and smoothing
  int64_t batch = 1024;
  int64_t micro_batch = 128;  // images at once in evaluation
  int64_t seed = 0;           // of mixing and stochastic depth
  torch::Device device = torch::kCPU;
  bool graphs = false;  // capture the steps; on a GPU
  std::function<void(const std::string&)> message = {};
};

// The counts of an evaluation.
struct ImageCounts {
  double loss = 0, images = 0, top1 = 0, top5 = 0;
  std::vector<double> confusion;  // (classes, classes): images of a class, by the answer
};

class ImageTraining : public Task {
 public:
  ImageTraining(ImageModel model, ImageTrainingSettings settings);

  torch::nn::Module& model() override { return *model_; }
  Totals accumulate(Slice slice, std::optional<Slice> next) override;
  // The numbers of ImageCounts.
  std::vector<double> evaluate(int64_t rank, int64_t ranks) override;
  // {"loss", "top1", "top5", "images"}
  nlohmann::ordered_json summary(const std::vector<double>& sums) const override;
  bool evaluates_average() const override { return true; }
  void take_sums(const std::vector<double>& sums, bool average) override;
  std::string find_fault(Slice slice) override;
  std::string advice() const override {
    return "Lower train.optimizer.rate, or look at these images.";
  }

  // Counts of the last evaluation, of the weights or of their average. Empty before the first.
  const ImageCounts& counts(bool average) const { return average ? average_ : last_; }

 private:
  struct Prepared;
  Prepared prepare(Slice slice) const;
  Prepared batch(Slice slice);
  std::vector<torch::Tensor> gradients(const std::vector<torch::Tensor>& inputs);

  ImageModel model_;
  const ImageTrainingSettings settings_;
  const Uploader uploader_;
  double flops_per_image_ = 0;
  CapturedSteps captured_;
  Slice coming_;
  std::shared_ptr<std::future<Prepared>> coming_batch_;
  ImageCounts last_, average_;
};

// pixels (B, 3, size, size) with each image mixed with its neighbour, as mix_pixels() does.
torch::Tensor mixed(const torch::Tensor& pixels, const BatchMix& mix);

}  // namespace hydramix
