// SPDX-License-Identifier: Apache-2.0
// The image loader on photographs of ImageNet's usual size, 375 x 500 pixels in about 110 kB, which
// become 3 x 224 x 224 numbers. The time of plain decoding, without any transform, is in the place
// of the matrix products; "tokens" are images. The files are in memory, so that the disk does not
// matter.
#include <algorithm>
#include <ctime>

#include "base/formatted.h"
#include "bench/suite.h"
#include "hydramix/error.h"
#include "images/augment.h"
#include "images/decode.h"
#include "images/drawn_images.h"
#include "images/image_loader.h"
#include "images/jpeg.h"

namespace hydramix::bench {
namespace {

constexpr ImageSize kPhotograph{375, 500};
constexpr int kQuality = 95;              // gives the mean file size of ImageNet
constexpr int64_t kPhotographs = 32;      // different ones
constexpr int64_t kImagesPerThread = 32;  // in a round

class Photographs final : public ImageCollection {
 public:
  explicit Photographs(uint64_t seed) {
    for (int64_t i = 0; i < kPhotographs; ++i)
      files_.push_back(
          encode_jpeg(draw_image({seed, ImageSplit::kTrain, i}, kPhotograph), kQuality));
  }
  int64_t size() const override { return kPhotographs; }
  const std::vector<std::string>& classes() const override { return drawn_classes(); }
  int64_t label(int64_t i) const override { return i % std::ssize(drawn_classes()); }
  std::string name(int64_t i) const override { return concat("photograph ", i); }
  Image load(int64_t i) const override { return decode_image(file(i), name(i)); }
  ImagePart load_part(int64_t i, const ChoosePart& choose) const override {
    return decode_part(file(i), name(i), choose);
  }
  std::string fingerprint() const override { return "photographs"; }

  double mean_bytes() const {
    double sum = 0;
    for (const auto& bytes : files_) sum += static_cast<double>(bytes.size());
    return sum / kPhotographs;
  }

 private:
  EncodedImage file(int64_t i) const {
    const auto& bytes = files_[static_cast<std::size_t>(i)];
    return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  }
  std::vector<std::string> files_;
};

struct Pipeline {
  std::string name;
  LoadImage load;
};

std::vector<Pipeline> pipelines(uint64_t seed) {
  const AugmentOptions recipe;  // the paper's
  AugmentOptions crop = recipe;
  crop.rand_augment.layers = 0;
  crop.erasing = 0;
  const auto training = [seed](const AugmentOptions& options) -> LoadImage {
    const auto transform = std::make_shared<ImageTransform>(options);
    return [=](const ImageCollection& images, int64_t image, int64_t epoch, std::span<float> out) {
      transform->train(images, {seed, epoch, image}, out);
    };
  };
  const auto evaluation = std::make_shared<ImageTransform>(recipe);
  return {{"crop and flip", training(crop)},
          {"recipe of the paper", training(recipe)},
          {"evaluation", [=](const ImageCollection& images, int64_t image, int64_t,
                             std::span<float> out) { evaluation->evaluate(images, image, out); }}};
}

void decode_only(const ImageCollection& images, int64_t image, int64_t, std::span<float> out) {
  out[0] = images.load(image).rgb.front();
}

// The loader must give the same numbers as one thread that computes image by image.
void verify_loader(const std::shared_ptr<const Photographs>& photographs, const Pipeline& pipeline,
                   const ImageLoaderOptions& options) {
  ImageLoader loader(photographs, pipeline.load, options);
  const int64_t count = 4, first = kPhotographs - 2;
  const ImageBatch batch = loader.load(first, count);
  std::vector<float> expected(static_cast<std::size_t>(options.values));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t number = first + k;
    pipeline.load(*photographs, loader.image_of(number), number / kPhotographs, expected);
    HYDRAMIX_CHECK(
        std::equal(expected.begin(), expected.end(), batch.pixels.begin() + k * options.values),
        "bench: ", pipeline.name, ": the loader's image ", number,
        " is not that of the transform.");
  }
}

void images_step(Bench& bench, int threads) {
  const auto seed = static_cast<uint64_t>(bench.options.seed);
  const auto photographs = std::make_shared<const Photographs>(seed);
  ImageLoaderOptions options;
  options.values = int64_t{3} * 224 * 224;
  options.seed = seed;
  options.workers = threads;
  const int64_t count = kImagesPerThread * threads;
  const auto all = pipelines(seed);
  for (const auto& pipeline : all) verify_loader(photographs, pipeline, options);

  // A loader for each round: what it prefetches would run in the time of the next alternative.
  struct CoreTime {
    std::clock_t ticks = 0;  // of all threads
    int64_t rounds = 0;
  };
  std::vector<CoreTime> core_times(all.size() + 1);
  std::vector<Alternative> alternatives;
  for (std::size_t i = 0; i <= all.size(); ++i)
    alternatives.push_back([&, i, load = i == 0 ? LoadImage(decode_only) : all[i - 1].load] {
      const std::clock_t start = std::clock();
      ImageLoader(photographs, load, options).load(0, count);
      core_times[i].ticks += std::clock() - start;
      ++core_times[i].rounds;
    });
  const Peak peak = bench.peak(threads);
  const auto times = time_interleaved(alternatives, bench.options.timer());
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    Measurement m;
    m.subject = {.suite = "images",
                 .name = i == 0 ? "decode" : all[i - 1].name,
                 .pass = "forward",
                 .batch = count,
                 .length = 1,
                 .threads = threads};
    m.ms = 1e3 * times[i].seconds;
    m.gemm_ms = 1e3 * times[0].seconds;
    m.rounds = times[i].rounds;
    m.peak = peak;
    m.work.bytes = static_cast<double>(count) *
                   (photographs->mean_bytes() + 4.0 * static_cast<double>(options.values));
    // On an idle machine the first divided by the threads; other load does not lower it.
    const double core_seconds = static_cast<double>(core_times[i].ticks) / CLOCKS_PER_SEC;
    m.extra = {
        {"images_per_s", m.tokens_per_s()},
        {"images_per_core_s", static_cast<double>(core_times[i].rounds * count) / core_seconds}};
    bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> images_suite(const Options& options) {
  std::vector<Step> steps;
  for (const int threads : thread_counts(options))
    steps.push_back({formatted("%lld thread%s", threads, threads == 1 ? "" : "s"),
                     [threads](Bench& bench) { images_step(bench, threads); }});
  return steps;
}

}  // namespace hydramix::bench
