// SPDX-License-Identifier: Apache-2.0
#include "train/image_training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hydramix/error.h"
#include "ops/host_copy.h"
#include "train/profile.h"

namespace hydramix {
namespace {

constexpr int64_t kTop = 5;

ImageCounts counts_of(const std::vector<double>& sums) {
  return {sums.at(0), sums.at(1), sums.at(2), sums.at(3), {sums.begin() + 4, sums.end()}};
}

// The values as a tensor (n), in pinned memory for a GPU, so that the copy to it does not wait for
// work launched before.
template <class T>
torch::Tensor host_tensor(std::vector<T> values, torch::ScalarType type, torch::Device device) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  const auto t = torch::from_blob(
      owner->data(), {std::ssize(*owner)}, [owner](void*) {}, type);
  return ready_for_upload(t, device);
}

// (B, 3, size, size), without a copy where the batch lies in memory_for_upload().
torch::Tensor pixels_of(const ImageBatch& images, int64_t size, torch::Device device) {
  const auto t = torch::from_blob(
      images.pixels.data(), {std::ssize(images.pixels)}, [memory = images.memory](void*) {},
      torch::kFloat32);
  return ready_for_upload(t, device).view({-1, 3, size, size});
}

// - sum_c t_c log p_c over rows of logits and targets (B, classes).
torch::Tensor soft_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  return -(targets * logits.to(torch::kFloat64).log_softmax(1)).sum();
}

}  // namespace

torch::Tensor mixed(const torch::Tensor& pixels, const BatchMix& mix) {
  if (mix.kind == MixKind::kNone) return pixels;
  const auto other =
      pixels.unflatten(0, std::vector<int64_t>{-1, 2}).flip(1).flatten(0, 1);  // the neighbours
  if (mix.kind == MixKind::kMixup) return mix.lambda * pixels + (1 - mix.lambda) * other;
  auto result = pixels.clone();
  const auto box = [&](const torch::Tensor& t) {
    return t.narrow(2, mix.box.top, mix.box.height).narrow(3, mix.box.left, mix.box.width);
  };
  box(result).copy_(box(other));
  return result;
}

// A batch on its way to the device.
struct ImageTraining::Prepared {
  // pixels (B, 3, size, size), not yet mixed; targets (B, classes); numbers (B) int64 of the images
  Upload batch;
  BatchMix mix;
};

ImageTraining::ImageTraining(ImageModel model, ImageTrainingSettings settings)
    : model_(std::move(model)),
      settings_(std::move(settings)),
      uploader_(settings_.device),
      captured_(settings_.graphs, /*most=*/1, settings_.message) {
  // Two operations per weight and token forward, four backward.
  for (const auto& item : model_->named_parameters())
    if (item.value().dim() >= 2 && !item.key().ends_with("position_embeddings")) {
      const bool once = item.key().starts_with("classifier");
      flops_per_image_ += 6.0 * static_cast<double>(item.value().numel()) *
                          static_cast<double>(once ? 1 : model_->options().length());
    }
}

ImageTraining::Prepared ImageTraining::prepare(Slice slice) const {
  const auto& device = settings_.device;
  // Pinned memory belongs to a device, and this may be another thread.
  c10::OptionalDeviceGuard guard;
  if (runs_beside_host(device)) guard.reset_device(device);
  auto images = settings_.training(slice.first, slice.count);
  // A batch is mixed in one way, and a micro-batch is a part of one batch.
  const auto mix = draw_mix(settings_.augment, static_cast<uint64_t>(settings_.seed),
                            slice.first / settings_.batch);
  const int64_t size = model_->options().size, classes = model_->options().classes;
  auto targets = mixed_targets(mix, images.labels, classes, settings_.augment.smoothing);
  std::vector<int64_t> numbers(static_cast<std::size_t>(slice.count));
  std::iota(numbers.begin(), numbers.end(), slice.first);
  return {
      uploader_.start({pixels_of(images, size, device),
                       host_tensor(std::move(targets), torch::kFloat32, device).view({-1, classes}),
                       host_tensor(std::move(numbers), torch::kInt64, device)}),
      mix};
}

// The batch, prefetched during the previous one, or made now.
ImageTraining::Prepared ImageTraining::batch(Slice slice) {
  if (coming_batch_) {
    auto ready = coming_batch_->get();
    coming_batch_.reset();
    if (coming_.first == slice.first && coming_.count == slice.count) return ready;
  }
  return prepare(slice);
}

// inputs: pixels, targets, numbers. Returns the loss and the number of images whose likeliest class
// is that of the target.
std::vector<torch::Tensor> ImageTraining::gradients(const std::vector<torch::Tensor>& inputs) {
  const auto& targets = inputs[1];
  const auto logits = model_->forward(inputs[0], {settings_.seed, inputs[2]});
  const auto loss = soft_cross_entropy(logits, targets);
  loss.backward();
  return {loss.detach(), (logits.detach().argmax(1) == targets.argmax(1)).sum()};
}

Totals ImageTraining::accumulate(Slice slice, std::optional<Slice> next) {
  const auto prepared = [&] {
    const Profile::Span span(profile, "batch");
    return batch(slice);
  }();
  if (next) {
    coming_ = *next;
    coming_batch_ = std::make_shared<std::future<Prepared>>(
        std::async(std::launch::async, [this, what = *next] { return prepare(what); }));
  }
  model_->train();
  CapturedSteps::Step step;
  step.inputs = prepared.batch.tensors();
  step.inputs[0] = mixed(step.inputs[0], prepared.mix);
  step.shape = {slice.count};
  step.run = [this](const std::vector<torch::Tensor>& inputs) { return gradients(inputs); };
  const Profile::Span span(profile, "forward, backward");
  const auto results = captured_.run(step);
  Totals totals;
  totals.terms = static_cast<double>(slice.count);
  totals.tokens = totals.terms * static_cast<double>(model_->options().length());
  totals.flops = totals.terms * flops_per_image_;
  totals.set_sums(results[0], results[1]);
  return totals;
}

std::vector<double> ImageTraining::evaluate(int64_t rank, int64_t ranks) {
  torch::NoGradGuard no_grad;
  model_->eval();
  const int64_t classes = model_->options().classes, size = model_->options().size;
  const int64_t top = std::min(kTop, classes);
  std::vector<double> sums(static_cast<std::size_t>(4 + classes * classes));
  // Ranks share out batches, not images, so that a batch is the same on any number of ranks.
  const int64_t step = settings_.micro_batch;
  for (int64_t first = rank * step; first < settings_.validation_images; first += ranks * step) {
    const auto images =
        settings_.validation(first, std::min(step, settings_.validation_images - first));
    const auto pixels = uploader_.start({pixels_of(images, size, settings_.device)});
    const auto scores = model_->forward(pixels.tensors()[0])
                            .to(torch::kFloat64)
                            .log_softmax(1)
                            .cpu()
                            .contiguous();                            // (B, classes)
    const auto best = std::get<1>(scores.topk(top, 1)).contiguous();  // (B, top)
    for (std::size_t i = 0; i < images.labels.size(); ++i) {
      const int64_t label = images.labels[i], row = static_cast<int64_t>(i);
      if (label < 0) continue;  // damaged
      const auto* answers = best.data_ptr<int64_t>() + row * top;
      sums[0] -= scores.data_ptr<double>()[row * classes + label];
      sums[1] += 1;
      sums[2] += answers[0] == label ? 1 : 0;
      sums[3] += std::find(answers, answers + top, label) != answers + top ? 1 : 0;
      sums[static_cast<std::size_t>(4 + label * classes + answers[0])] += 1;
    }
  }
  return sums;
}

nlohmann::ordered_json ImageTraining::summary(const std::vector<double>& sums) const {
  const double images = std::max(sums.at(1), 1.0);
  return {{"loss", sums.at(0) / images},
          {"top1", sums.at(2) / images},
          {"top5", sums.at(3) / images},
          {"images", sums.at(1)}};
}

void ImageTraining::take_sums(const std::vector<double>& sums, bool average) {
  (average ? average_ : last_) = counts_of(sums);
}

std::string ImageTraining::find_fault(Slice slice) {
  torch::NoGradGuard no_grad;
  model_->train();
  const auto prepared = prepare(slice);
  const auto inputs = prepared.batch.tensors();
  const auto pixels = mixed(inputs[0], prepared.mix);
  std::string where = "every layer's output is finite, the gradient is not";
  int64_t layer = 0;
  const auto logits =
      model_->forward(pixels, {settings_.seed, inputs[2]}, [&](const torch::Tensor& x) {
        if (layer < 0) return;
        if (!torch::isfinite(x).all().item<bool>()) {
          where = layer == 0
                      ? std::string("the embedding's output is not finite")
                      : concat("the output of layer ", layer - 1, " is the first not finite");
          layer = -1;  // report only the first
          return;
        }
        ++layer;
      });
  const double loss = soft_cross_entropy(logits, inputs[1]).item<double>();
  if (layer >= 0 && !std::isfinite(loss))
    where = "every layer's output is finite, the classifier's loss is not";
  std::string names;
  for (int64_t i = 0; i < std::min<int64_t>(slice.count, 4) && settings_.name; ++i)
    names += (i > 0 ? ", " : "") + settings_.name(slice.first + i);
  return concat(where, ", for images ", slice.first, " to ", slice.first + slice.count - 1,
                names.empty() ? "" : concat(" (", names, slice.count > 4 ? ", ..." : "", ")"), ".");
}

}  // namespace hydramix
