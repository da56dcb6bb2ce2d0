// SPDX-License-Identifier: Apache-2.0
#include "images/image_data.h"

#include <cmath>

#include "base/spelling.h"
#include "hydramix/error.h"
#include "images/image_layout.h"

namespace hydramix {
namespace {

class ImageShare final : public ImageCollection {
 public:
  ImageShare(std::shared_ptr<const ImageCollection> images, double share, bool others)
      : images_(std::move(images)), description_(concat(others ? "-others-" : "-share-", share)) {
    const auto before = [&](int64_t i) { return std::floor(static_cast<double>(i) * share); };
    for (int64_t i = 0; i < images_->size(); ++i)
      if ((before(i + 1) > before(i)) != others) chosen_.push_back(i);
    HYDRAMIX_CHECK_USAGE(!chosen_.empty(), "held_out: ", share, " of ", images_->size(),
                         " images leaves no image for ", others ? "training" : "validation",
                         ". Choose another share.");
  }
  int64_t size() const override { return std::ssize(chosen_); }
  const std::vector<std::string>& classes() const override { return images_->classes(); }
  int64_t label(int64_t i) const override { return images_->label(at(i)); }
  std::string name(int64_t i) const override { return images_->name(at(i)); }
  Image load(int64_t i) const override { return images_->load(at(i)); }
  ImagePart load_part(int64_t i, const ChoosePart& choose) const override {
    return images_->load_part(at(i), choose);
  }
  std::string fingerprint() const override { return images_->fingerprint() + description_; }

 private:
  int64_t at(int64_t i) const { return chosen_[static_cast<std::size_t>(i)]; }

  std::shared_ptr<const ImageCollection> images_;
  std::string description_;
  std::vector<int64_t> chosen_;
};

}  // namespace

std::unique_ptr<ImageCollection> image_share(std::shared_ptr<const ImageCollection> images,
                                             double share, bool others) {
  return std::make_unique<ImageShare>(std::move(images), share, others);
}

ImageSplits open_image_splits(const ImageDataOptions& options) {
  if (options.path == "drawn" && options.validation.empty() && options.held_out == 0)
    return {drawn_images(options.drawn, ImageSplit::kTrain),
            drawn_images(options.drawn, ImageSplit::kValidation)};
  HYDRAMIX_CHECK_USAGE(options.validation.empty() || options.held_out == 0, "data.validation ",
                       options.validation, " and data.held_out ", options.held_out,
                       " both name images for validation. Give one of them.");
  const auto layout = find_image_layout(options.path, options.drawn);
  if (options.held_out > 0) {
    const std::shared_ptr<const ImageCollection> all = layout.open(ImageSplit::kTrain);
    return {image_share(all, options.held_out, /*others=*/true),
            image_share(all, options.held_out, /*others=*/false)};
  }
  if (options.validation.empty()) {
    HYDRAMIX_CHECK_USAGE(layout.has_validation(), options.path,
                         ": holds images of one split, which would be used for training. Name a "
                         "folder or file for validation (data.validation), or hold out a share of "
                         "the images (data.held_out).");
    return {layout.open(ImageSplit::kTrain), layout.open(ImageSplit::kValidation)};
  }
  auto train = layout.open(ImageSplit::kTrain);
  auto validation = find_image_layout(options.validation, options.drawn, train->classes())
                        .open(ImageSplit::kValidation);
  HYDRAMIX_CHECK(validation->classes() == train->classes(), options.validation, ": its classes (",
                 join(validation->classes()), ") are not those of ", options.path, " (",
                 join(train->classes()), ").");
  return {std::move(train), std::move(validation)};
}

}  // namespace hydramix
