// SPDX-License-Identifier: Apache-2.0
#include "images/image_loader.h"

#include <atomic>
#include <set>

#include "data/shuffle.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

// Image i is one pixel of value i; some are damaged.
class NumberedImages final : public ImageCollection {
 public:
  explicit NumberedImages(int64_t size, std::set<int64_t> damaged = {})
      : size_(size), damaged_(std::move(damaged)) {}
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 2; }
  std::string name(int64_t i) const override { return concat("image ", i); }
  Image load(int64_t i) const override {
    ++loads;
    if (damaged_.contains(i)) throw Error(name(i) + ": is damaged");
    Image image(1, 1);
    image.rgb[0] = static_cast<uint8_t>(i);
    return image;
  }
  std::string fingerprint() const override { return "numbered"; }

  mutable std::atomic<int64_t> loads = 0;

 private:
  int64_t size_;
  std::set<int64_t> damaged_;
  std::vector<std::string> classes_ = {"even", "odd"};
};

// The image's number, its number again, and the epoch.
void load_numbers(const ImageCollection& images, int64_t image, int64_t epoch,
                  std::span<float> out) {
  out[0] = images.load(image).rgb[0];
  out[1] = static_cast<float>(image);
  out[2] = static_cast<float>(epoch);
}

ImageLoaderOptions numbered_options(int64_t workers, bool shuffled = true) {
  ImageLoaderOptions options;
  options.values = 3;
  options.shuffled = shuffled;
  options.seed = 5;
  options.workers = workers;
  return options;
}

TEST(ImageLoader, GivesTheShuffledOrderOfEveryEpoch) {
  const auto images = std::make_shared<NumberedImages>(13);
  for (const int64_t workers : {1, 3}) {
    ImageLoader loader(images, load_numbers, numbered_options(workers));
    for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 4}, {4, 4}, {8, 4}, {12, 4}, {100, 7}, {3, 30}, {3, 30}}) {
      const ImageBatch batch = loader.load(first, count);
      ASSERT_EQ(std::ssize(batch.labels), count);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t number = first + k, epoch = number / 13;
        const int64_t image = Shuffle(13, 5, static_cast<uint64_t>(epoch))(number % 13);
        EXPECT_EQ(batch.pixels[static_cast<std::size_t>(3 * k)], static_cast<float>(image));
        EXPECT_EQ(batch.pixels[static_cast<std::size_t>(3 * k + 2)], static_cast<float>(epoch));
        EXPECT_EQ(batch.labels[static_cast<std::size_t>(k)], image % 2);
        EXPECT_EQ(loader.image_of(number), image);
      }
    }
  }
}

TEST(ImageLoader, EvaluatesInOrderAndReadsNoImageTwice) {
  const auto images = std::make_shared<NumberedImages>(10);
  ImageLoader loader(images, load_numbers, numbered_options(2, /*shuffled=*/false));
  std::vector<float> seen;
  for (int64_t first = 0; first < 10; first += 4) {
    const ImageBatch batch = loader.load(first, std::min<int64_t>(4, 10 - first));
    for (std::size_t k = 0; k < batch.pixels.size(); k += 3) seen.push_back(batch.pixels[k]);
  }
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(images->loads, 10);  // the prefetched batches were those requested
  EXPECT_THROW_WITH(loader.load(8, 4), Error, "images 8 to 11 of 10");
}

TEST(ImageLoader, WritesToTheMemoryThatItIsGiven) {
  const auto images = std::make_shared<NumberedImages>(10);
  std::vector<const float*> given;
  auto options = numbered_options(2);
  options.memory = [&](int64_t n) {
    auto memory = std::make_shared<float[]>(static_cast<std::size_t>(n));
    given.push_back(memory.get());
    return memory;
  };
  ImageLoader loader(images, load_numbers, options);
  const ImageBatch first = loader.load(0, 4), second = loader.load(4, 4);
  EXPECT_EQ(given.size(), 3);  // and that of the batch that is likely to be next
  EXPECT_EQ(first.pixels.data(), given[0]);
  EXPECT_EQ(second.pixels.data(), given[1]);
  EXPECT_EQ(second.pixels.size(), 12);
  options.memory = [](int64_t) -> std::shared_ptr<float[]> { throw std::bad_alloc(); };
  EXPECT_THROW(ImageLoader(images, load_numbers, options).load(0, 4), std::bad_alloc);
}

TEST(ImageLoader, PrefetchesStepsOfAnySize) {
  const auto images = std::make_shared<NumberedImages>(100);
  ImageLoader loader(images, load_numbers, numbered_options(1, /*shuffled=*/false));
  loader.load(0, 5);   // guesses 5
  loader.load(20, 5);  // guesses 40
  loader.load(40, 5);  // guesses 60
  loader.load(60, 5);  // guesses 80
  loader.load(80, 5);
  EXPECT_LE(images->loads, 30);  // 25, and the wrong guess as far as it got
}

TEST(ImageLoader, ReplacesDamagedImagesInTraining) {
  const auto images = std::make_shared<NumberedImages>(10, std::set<int64_t>{3, 4, 9});
  std::vector<std::string> messages;
  auto options = numbered_options(3);
  options.message = [&](const std::string& message) { messages.push_back(message); };
  ImageLoader loader(images, load_numbers, options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const ImageBatch batch = loader.load(10 * epoch, 10);
    std::multiset<int> seen;
    for (std::size_t k = 0; k < 10; ++k) {
      const int image = static_cast<int>(batch.pixels[3 * k]);
      seen.insert(image);
      EXPECT_EQ(batch.labels[k], image % 2);
    }
    EXPECT_EQ(seen, (std::multiset<int>{0, 0, 1, 2, 5, 5, 5, 6, 7, 8}));
  }
  loader.load(30, 1);
  EXPECT_EQ(loader.broken(), 3);
  EXPECT_EQ(
      std::set<std::string>(messages.begin(), messages.end()),
      (std::set<std::string>{"image 3: is damaged", "image 4: is damaged", "image 9: is damaged"}));
  EXPECT_EQ(messages.size(), 3u);
}

TEST(ImageLoader, MarksDamagedImagesInEvaluation) {
  const auto images = std::make_shared<NumberedImages>(4, std::set<int64_t>{1, 3});
  ImageLoader loader(images, load_numbers, numbered_options(2, /*shuffled=*/false));
  EXPECT_EQ(loader.load(0, 4).labels, (std::vector<int64_t>{0, -1, 0, -1}));
}

TEST(ImageLoader, FailsAtADamagedImageOnRequest) {
  const auto images = std::make_shared<NumberedImages>(10, std::set<int64_t>{3});
  auto options = numbered_options(2, /*shuffled=*/false);
  options.broken_fails = true;
  ImageLoader loader(images, load_numbers, options);
  for (int again = 0; again < 3; ++again) {
    EXPECT_THROW_WITH(loader.load(0, 10), Error, "image 3: is damaged");
    EXPECT_EQ(loader.load(4, 2).pixels[0], 4);
  }
}

TEST(ImageLoader, FailsWhenEverythingIsDamaged) {
  const auto images = std::make_shared<NumberedImages>(2, std::set<int64_t>{0, 1});
  ImageLoader loader(images, load_numbers, numbered_options(2));
  EXPECT_THROW_WITH(loader.load(0, 2), Error, "this and the next 1 images are damaged");
}

TEST(ImageLoader, PassesOtherExceptionsOn) {
  const auto images = std::make_shared<NumberedImages>(10);
  ImageLoader loader(
      images,
      [](const ImageCollection&, int64_t image, int64_t, std::span<float>) {
        if (image == 7) throw std::bad_alloc();
      },
      numbered_options(3));
  EXPECT_THROW(loader.load(0, 10), std::bad_alloc);
}

TEST(ImageLoader, StopsWhilePrefetching) {
  const auto images = std::make_shared<NumberedImages>(1000);
  for (int i = 0; i < 20; ++i) {
    ImageLoader loader(images, load_numbers, numbered_options(4));
    loader.load(0, 100);
  }
  EXPECT_LE(images->loads, 20 * 200);
}

}  // namespace
}  // namespace hydramix
