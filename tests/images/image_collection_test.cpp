// SPDX-License-Identifier: Apache-2.0
// Collections on disk: what is read, and what is refused with which words.
#include "images/image_collection.h"

#include <zlib.h>

#include <fstream>
#include <set>

#include "hydramix/error.h"
#include "images/image_data.h"
#include "images/image_layout.h"
#include "images/jpeg.h"
#include "images/packed_images.h"
#include "images/png.h"
#include "support/expect.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void put_gzip(const fs::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

Image uniform_image(int64_t height, int64_t width, uint8_t value) {
  Image image(height, width);
  std::fill(image.rgb.begin(), image.rgb.end(), value);
  return image;
}

std::string big_endian(std::initializer_list<uint32_t> numbers) {
  std::string out;
  for (const uint32_t number : numbers)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
  return out;
}

// train/ with three classes, val/ with two of them.
void put_image_net(const fs::path& folder) {
  put(folder / "train/cat/b.JPEG", encode_jpeg(uniform_image(9, 8, 10), 90));
  put(folder / "train/cat/a.png", encode_png(uniform_image(5, 6, 20)));
  put(folder / "train/ant/x.jpg", encode_jpeg(uniform_image(7, 7, 30), 90));
  put(folder / "train/ant/.hidden.jpg", "no image");
  put(folder / "train/ant/notes.txt", "no image");
  put(folder / "train/dog/y.jpeg", encode_jpeg(uniform_image(400, 300, 40), 90));
  put(folder / "val/dog/y.png", encode_png(uniform_image(5, 6, 50)));
  put(folder / "val/cat/z.png", encode_png(uniform_image(5, 6, 60)));
}

TEST(ImageFolder, ReadsAFolderPerClass) {
  const test::TemporaryFolder folder;
  put_image_net(folder.path());
  const auto train = open_images(folder.path(), ImageSplit::kTrain);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"ant", "cat", "dog"}));
  ASSERT_EQ(train->size(), 4);
  std::vector<int64_t> labels;
  std::vector<int> values;
  for (int64_t i = 0; i < 4; ++i) {
    labels.push_back(train->label(i));
    values.push_back(train->load(i).rgb[0]);
  }
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 1, 1, 2}));
  EXPECT_EQ(values, (std::vector<int>{30, 20, 10, 40}));
  EXPECT_EQ(train->name(1), (folder / "train/cat/a.png").string());
  const ImagePart part = train->load_part(3, [](const ImageSize& full) {
    EXPECT_EQ(full, (ImageSize{400, 300}));
    return WantedPart{{100, 100, 200, 200}, {100, 100}};
  });
  EXPECT_EQ(part.box.height, 100);  // decoded at half the resolution

  // Labels of the validation set are those of the training set, although it lacks a class.
  const auto validation = open_images(folder.path(), ImageSplit::kValidation);
  EXPECT_EQ(validation->classes(), train->classes());
  EXPECT_EQ(validation->size(), 2);
  EXPECT_EQ(validation->label(0), 1);
  EXPECT_EQ(validation->label(1), 2);
  EXPECT_EQ(validation->load(1).rgb[0], 50);

  ImageDataOptions options;
  options.path = folder.path().string();
  EXPECT_EQ(open_image_splits(options).validation->size(), 2);

  const std::string before = train->fingerprint();
  EXPECT_EQ(before, open_images(folder.path(), ImageSplit::kTrain)->fingerprint());
  EXPECT_NE(before, validation->fingerprint());
  fs::rename(folder / "train/cat/a.png", folder / "train/cat/c.png");
  EXPECT_NE(before, open_images(folder.path(), ImageSplit::kTrain)->fingerprint());
}

// A run that continues notices that an image was replaced, also by one of the same size.
TEST(ImageFolder, HasAFingerprintOfSizesAndContents) {
  const test::TemporaryFolder folder;
  put_image_net(folder.path());
  const auto fingerprint = [&] {
    return open_images(folder.path(), ImageSplit::kTrain)->fingerprint();
  };
  const std::string before = fingerprint();
  const auto path = folder / "train/cat/a.png";
  const std::string bytes = encode_png(uniform_image(5, 6, 20));
  put(path, bytes + " ");
  EXPECT_NE(fingerprint(), before);
  std::string other = bytes;
  other.back() ^= 1;
  put(path, other);
  EXPECT_NE(fingerprint(), before);
  put(path, bytes);
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(fingerprint(), before) << "a copy of the folder is the same data";
}

TEST(ImageFolder, WithBothSplitsNeedsNoOtherOption) {
  for (const char* name : {"val", "validation", "test"}) {
    const test::TemporaryFolder folder;
    put_image_net(folder.path());
    if (name != std::string("val")) fs::rename(folder / "val", folder / name);
    ImageDataOptions options;
    options.path = folder.path().string();
    const auto splits = open_image_splits(options);
    EXPECT_EQ(splits.train->size(), 4) << name;
    EXPECT_EQ(splits.validation->size(), 2) << name;
    EXPECT_TRUE(names_image_layout(folder.path()));
    EXPECT_TRUE(names_image_layout(folder / "train"));
    EXPECT_FALSE(names_image_layout(folder / "train/cat"));
    EXPECT_FALSE(names_image_layout(folder / "none"));
  }
}

TEST(ImageFolder, ReadsOneSplit) {
  const test::TemporaryFolder folder;
  put_image_net(folder.path());
  const auto images = open_images(folder / "train", ImageSplit::kValidation);
  EXPECT_EQ(images->size(), 4);
  ImageDataOptions options;
  options.path = (folder / "train").string();
  EXPECT_THROW_WITH(open_image_splits(options), UsageError, "holds images of one split");
  options.validation = (folder / "val").string();
  const auto splits = open_image_splits(options);
  EXPECT_EQ(splits.train->size(), 4);
  EXPECT_EQ(splits.validation->label(1), 2);
  options.held_out = 0.5;
  EXPECT_THROW_WITH(open_image_splits(options), UsageError, "Give one of them");
  options.validation.clear();
  const auto halves = open_image_splits(options);
  EXPECT_EQ(halves.train->size(), 2);
  EXPECT_EQ(halves.validation->size(), 2);
  std::set<std::string> names;
  for (const auto* half : {halves.train.get(), halves.validation.get()})
    for (int64_t i = 0; i < 2; ++i) names.insert(half->name(i));
  EXPECT_EQ(names.size(), 4u);
  EXPECT_NE(halves.train->fingerprint(), halves.validation->fingerprint());
  options.held_out = 0.1;
  EXPECT_THROW_WITH(open_image_splits(options), UsageError, "leaves no image for validation");
}

TEST(ImageFolder, RefusesWhatIsNoSetOfClasses) {
  const auto refused = [](const std::function<void(const fs::path&)>& fill,
                          const std::string& text) {
    const test::TemporaryFolder folder;
    fill(folder.path());
    EXPECT_THROW_WITH(
        {
          open_images(folder.path(), ImageSplit::kTrain);
          open_images(folder.path(), ImageSplit::kValidation);
        },
        Error, text);
  };
  const std::string png = encode_png(uniform_image(4, 4, 1));
  refused([](const fs::path&) {}, "holds no images that can be read");
  refused([&](const fs::path& p) { put(p / "a.png", png); }, "holds no images that can be read");
  refused([&](const fs::path& p) { put(p / "train/a.png", png); }, "expected one per class");
  refused([&](const fs::path& p) { put(p / "train/cat/a.png", png); }, "only one class, cat");
  refused([&](const fs::path& p) { put(p / "cat/a.png", png); }, "only one class, cat");
  refused(
      [&](const fs::path& p) {
        put_image_net(p);
        fs::create_directories(p / "train/empty");
      },
      "empty: has no JPEG or PNG files");
  refused(
      [&](const fs::path& p) {
        put_image_net(p);
        put(p / "val/cats/a.png", png);
      },
      "val/cats: is a class that the training set lacks. Did you mean 'cat'?");
  refused(
      [&](const fs::path& p) {
        put_image_net(p);
        fs::rename(p / "val", p / "elsewhere");
      },
      "has train/ but none of val/");
  refused(
      [&](const fs::path& p) {
        put_image_net(p);
        fs::rename(p / "val/dog/y.png", p / "val/dog/y.webp");
      },
      "val/dog: has no JPEG or PNG files");
  EXPECT_THROW_WITH(open_images("/nonexistent", ImageSplit::kTrain), Error,
                    "/nonexistent: does not exist");
}

std::string cifar_file(int64_t first, int64_t count) {
  std::string out;
  for (int64_t i = first; i < first + count; ++i) {
    Image image = uniform_image(32, 32, static_cast<uint8_t>(i));
    image.pixel(2, 5)[1] = 200;
    out += cifar10_record(image, i % 10);
  }
  return out;
}

TEST(Cifar10, ReadsTheBinaryVersion) {
  const test::TemporaryFolder folder;
  put(folder / "cifar-10-batches-bin/data_batch_1.bin", cifar_file(0, 3));
  put(folder / "cifar-10-batches-bin/data_batch_2.bin", cifar_file(3, 2));
  put_gzip(folder / "cifar-10-batches-bin/test_batch.bin.gz", cifar_file(7, 1));
  const auto train = open_images(folder.path(), ImageSplit::kTrain);
  ASSERT_EQ(train->size(), 5);
  EXPECT_EQ(train->classes()[3], "cat");
  EXPECT_EQ(train->label(4), 4);
  const Image image = train->load(4);
  EXPECT_EQ(image.height, 32);
  EXPECT_EQ(image.pixel(2, 5)[0], 4);
  EXPECT_EQ(image.pixel(2, 5)[1], 200);
  EXPECT_EQ(image.pixel(5, 2)[1], 4);
  const auto test = open_images(folder.path(), ImageSplit::kValidation);
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(test->label(0), 7);
  EXPECT_NE(test->fingerprint(), train->fingerprint());

  put(folder / "cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(open_images(folder.path(), ImageSplit::kTrain)->classes()[3], "d");
  put(folder / "cifar-10-batches-bin/batches.meta.txt", "a\nb\n");
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error, "names 2 classes");
}

TEST(Cifar10, ReadsOneFile) {
  const test::TemporaryFolder folder;
  put(folder / "some.bin", cifar_file(0, 20));
  EXPECT_EQ(open_images(folder / "some.bin", ImageSplit::kTrain)->size(), 20);
  ImageDataOptions options;
  options.path = options.validation = (folder / "some.bin").string();
  EXPECT_EQ(open_image_splits(options).validation->size(), 20);
  options.validation.clear();
  options.held_out = 0.25;
  EXPECT_EQ(open_image_splits(options).train->size(), 15);
}

TEST(Cifar10, RefusesWrongSizesAndLabels) {
  const test::TemporaryFolder folder;
  put(folder / "data_batch_1.bin", cifar_file(0, 2) + "x");
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error,
                    "data_batch_1.bin: has 6147 bytes");
  put(folder / "data_batch_1.bin", "");
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error, "has 0 bytes");
  std::string bytes = cifar_file(0, 2);
  bytes[3073] = 10;
  put(folder / "data_batch_1.bin", bytes);
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error, "record 1 has label 10");
  put_gzip(folder / "data_batch_1.bin.gz", cifar_file(0, 2));
  fs::remove(folder / "data_batch_1.bin");
  fs::resize_file(folder / "data_batch_1.bin.gz", 20);
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error, "ends too early");
}

TEST(Mnist, ReadsIdxFiles) {
  const test::TemporaryFolder folder;
  std::string pixels;
  for (int i = 0; i < 2 * 3 * 4; ++i) pixels.push_back(static_cast<char>(10 * i));
  put(folder / "train-images-idx3-ubyte", big_endian({2051, 2, 3, 4}) + pixels);
  put(folder / "train-labels-idx1-ubyte", big_endian({2049, 2}) + "\x07\x01");
  put_gzip(folder / "t10k-images-idx3-ubyte.gz", big_endian({2051, 1, 1, 1}) + "\x05");
  put_gzip(folder / "t10k-labels-idx1-ubyte.gz", big_endian({2049, 1}) + "\x09");
  const auto train = open_images(folder.path(), ImageSplit::kTrain);
  ASSERT_EQ(train->size(), 2);
  EXPECT_EQ(train->classes().size(), 10u);
  EXPECT_EQ(train->label(0), 7);
  const Image image = train->load(1);
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.width, 4);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(image.pixel(1, 2)[c], 10 * (12 + 4 + 2));
  EXPECT_EQ(open_images(folder.path(), ImageSplit::kValidation)->label(0), 9);
  // A label above 9 in either split adds classes to both.
  put_gzip(folder / "t10k-labels-idx1-ubyte.gz", big_endian({2049, 1}) + "\x0b");
  EXPECT_EQ(open_images(folder.path(), ImageSplit::kTrain)->classes().size(), 12u);
  EXPECT_EQ(open_images(folder.path(), ImageSplit::kValidation)->classes().size(), 12u);
}

TEST(Mnist, RefusesDamagedFiles) {
  const std::string labels = big_endian({2049, 2}) + "\x07\x01";
  const auto parsed = [&](const std::string& images, const std::string& text,
                          const std::string& with_labels) {
    EXPECT_THROW_WITH(parse_idx(images, "images", with_labels, "labels"), Error, text);
  };
  parsed("abc", "images: ends at byte 3", labels);
  parsed(big_endian({2049, 1, 1, 1}), "images: begins with the number 2049", labels);
  parsed(big_endian({2051, 2, 1}), "within the header", labels);
  parsed(big_endian({2051, 2, 0, 5}), "its images are 0 x 5", labels);
  parsed(big_endian({2051, 2, 100000, 100000}), "its images are 100000 x 100000", labels);
  parsed(big_endian({2051, 0, 1, 1}), "has no images", labels);
  parsed(big_endian({2051, 2, 1, 1}) + "a", "says 2 records of 1 bytes, but 1 bytes follow",
         labels);
  parsed(big_endian({2051, 4294967295u, 4096, 4096}) + "a", "but 1 bytes follow", labels);
  parsed(big_endian({2051, 1, 1, 1}) + "a", "labels: has 2 labels, but images has 1", labels);
  parsed(big_endian({2051, 2, 1, 1}) + "ab", "labels: begins with the number 2051",
         big_endian({2051, 2}));

  const test::TemporaryFolder folder;
  put(folder / "train-images-idx3-ubyte", big_endian({2051, 1, 1, 1}) + "a");
  EXPECT_THROW_WITH(open_images(folder.path(), ImageSplit::kTrain), Error,
                    "not the labels to them, train-labels-idx1-ubyte");
}

TEST(DrawnSplits, AreTheDefault) {
  ImageDataOptions options;
  options.drawn.validation = 50;
  const auto splits = open_image_splits(options);
  EXPECT_EQ(splits.train->size(), 50000);
  EXPECT_EQ(splits.validation->size(), 50);
  EXPECT_EQ(open_images("drawn", ImageSplit::kTrain)->size(), 50000);
}

}  // namespace
}  // namespace hydramix
