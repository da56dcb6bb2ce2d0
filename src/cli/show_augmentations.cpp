// SPDX-License-Identifier: Apache-2.0
// hydramix show-augmentations: a picture of what training does to images.
#include <cmath>
#include <cstdio>

#include "cli/augmentation_sheet.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "images/image_layout.h"
#include "view/svg.h"

namespace hydramix {
namespace {

struct ShowAugmentationsOptions {
  std::string data = "drawn", out = "augmentations.svg";
  int64_t seed = 1;
  AugmentOptions augment;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("data", self.data,
      "images: drawn (the built-in set), or a folder or files as for train-images");
    v("out", self.out, Required{}, "SVG file to write");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of the images shown and of all random choices");
    v("augment", self.augment, "the augmentations, as in a recipe of train-images");
  }
};

int show_augmentations(const ShowAugmentationsOptions& o) {
  HYDRAMIX_CHECK_USAGE(std::filesystem::path(o.out).extension() == ".svg", "--out ", o.out,
                       ": the picture is an SVG. Choose a name that ends in .svg.");
  check_augment_options(o.augment);
  check_can_be_written(o.out);
  DrawnOptions drawn;
  drawn.side = std::max<int64_t>(
      16, std::llround(static_cast<double>(o.augment.size) / o.augment.crop_fraction));
  const auto images = find_image_layout(o.data, drawn).open(ImageSplit::kTrain);
  const Page page =
      layout_sheet(augmentation_sheet(*images, o.augment, static_cast<uint64_t>(o.seed)));
  write_svg(o.out, page);
  std::printf("wrote %s: %lld x %lld pixels\n", o.out.c_str(), static_cast<long long>(page.width),
              static_cast<long long>(page.height));
  return 0;
}

}  // namespace

Command show_augmentations_command() {
  return make_command<ShowAugmentationsOptions>(
      "show-augmentations", "draw a contact sheet of what training does to images",
      show_augmentations,
      "Examples:\n"
      "  hydramix show-augmentations --out sheet.svg\n"
      "  hydramix show-augmentations --data imagenet --seed 7\n"
      "  hydramix show-augmentations --data cifar-10-batches-bin --augment.size 32 "
      "--augment.crop padded --augment.crop-fraction 1\n"
      "Shows each operation of RandAugment, crops, whole images of training, mixed pairs and "
      "erased boxes. The defaults are those of the paper's recipe.");
}

}  // namespace hydramix
