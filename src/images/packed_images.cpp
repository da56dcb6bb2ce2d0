// SPDX-License-Identifier: Apache-2.0
#include "images/packed_images.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarPixels = 3 * kCifarSide * kCifarSide;

class PackedCollection final : public ImageCollection {
 public:
  PackedCollection(PackedImages images, std::string path, std::vector<std::string> classes)
      : images_(std::move(images)), path_(std::move(path)), classes_(std::move(classes)) {
    const auto& labels = images_.labels;
    const auto wrong = std::find_if(labels.begin(), labels.end(),
                                    [&](uint8_t label) { return label >= std::ssize(classes_); });
    HYDRAMIX_CHECK(wrong == labels.end(), path_, ": image ", wrong - labels.begin(), " has label ",
                   static_cast<int>(*wrong), ", expected 0 to ", std::ssize(classes_) - 1,
                   ". Check that these files belong together.");
    const std::string_view label_bytes(reinterpret_cast<const char*>(labels.data()), labels.size());
    checksum_ = crc32c(label_bytes, crc32c(images_.pixels));
  }

  int64_t size() const override { return std::ssize(images_.labels); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return images_.labels[static_cast<std::size_t>(i)]; }
  std::string name(int64_t i) const override { return concat(path_, ": image ", i); }

  Image load(int64_t i) const override {
    const auto [height, width] = images_.size;
    Image image(height, width);
    const auto* first =
        reinterpret_cast<const uint8_t*>(images_.pixels.data()) + i * images_.bytes_of_one();
    const int64_t plane = height * width;
    for (int64_t c = 0; c < 3; ++c) {
      const uint8_t* channel = images_.channels == 1 ? first : first + c * plane;
      uint8_t* out = image.rgb.data() + c;
      for (int64_t p = 0; p < plane; ++p) out[3 * p] = channel[p];
    }
    return image;
  }
  std::string fingerprint() const override {
    return concat("packed-", size(), "-", images_.size.height, "x", images_.size.width, "-",
                  checksum_text(checksum_));
  }

 private:
  PackedImages images_;
  std::string path_;
  std::vector<std::string> classes_;
  uint32_t checksum_ = 0;
};

// Reads the header of an idx file: the magic number, then as many numbers as it says.
class IdxHeader {
 public:
  IdxHeader(const std::string& bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  int64_t number() {
    HYDRAMIX_CHECK(at_ + 4 <= bytes_.size(), path_, ": ends at byte ", bytes_.size(),
                   " within the header of an idx file. Fetch it again.");
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[at_++]);
    return value;
  }
  void expect(int64_t magic, const char* what) {
    const int64_t found = number();
    HYDRAMIX_CHECK(found == magic, path_, ": begins with the number ", found, "; ", what,
                   " in idx format begin with ", magic, ".");
  }
  // The bytes after the header must be `count` records of `size` bytes.
  void expect_records(int64_t count, int64_t size) const {
    const auto rest = static_cast<int64_t>(bytes_.size() - at_);
    HYDRAMIX_CHECK(count > 0, path_, ": has no images.");
    HYDRAMIX_CHECK(rest / size == count && rest % size == 0, path_, ": its header says ", count,
                   " records of ", size, " bytes, but ", rest, " bytes follow. Fetch it again.");
  }
  std::size_t length() const { return at_; }

 private:
  const std::string& bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace

PackedImages parse_cifar10(std::string bytes, const std::string& path) {
  constexpr int64_t kRecord = kCifarPixels + 1;
  const int64_t count = std::ssize(bytes) / kRecord;
  HYDRAMIX_CHECK(count > 0 && std::ssize(bytes) % kRecord == 0, path, ": has ", bytes.size(),
                 " bytes; CIFAR-10's binary files are records of ", kRecord,
                 " bytes. Fetch it again, and use the binary version, not that for Python.");
  PackedImages out;
  out.size = {kCifarSide, kCifarSide};
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint8_t>(bytes[static_cast<std::size_t>(i * kRecord)]);
    HYDRAMIX_CHECK(label < 10, path, ": record ", i, " has label ", static_cast<int>(label),
                   ", expected 0 to 9. Check that this is CIFAR-10's binary version.");
    out.labels.push_back(label);
    std::memmove(bytes.data() + i * kCifarPixels, bytes.data() + i * kRecord + 1, kCifarPixels);
  }
  bytes.resize(static_cast<std::size_t>(count * kCifarPixels));
  out.pixels = std::move(bytes);
  return out;
}

std::string cifar10_record(const Image& image, int64_t label) {
  HYDRAMIX_CHECK(
      image.height == kCifarSide && image.width == kCifarSide && label >= 0 && label < 10,
      "CIFAR-10's format holds images of 32 x 32 in 10 classes; got ", image.height, " x ",
      image.width, " and label ", label, ".");
  std::string record(1, static_cast<char>(label));
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = c; i < image.rgb.size(); i += 3)
      record.push_back(static_cast<char>(image.rgb[i]));
  return record;
}

PackedImages parse_idx(std::string images, const std::string& images_path,
                       const std::string& labels, const std::string& labels_path) {
  constexpr int64_t kMaxSide = 4096;
  IdxHeader header(images, images_path);
  header.expect(2051, "images");
  const int64_t count = header.number(), rows = header.number(), columns = header.number();
  HYDRAMIX_CHECK(rows > 0 && rows <= kMaxSide && columns > 0 && columns <= kMaxSide, images_path,
                 ": its images are ", rows, " x ", columns, "; sides of 1 to ", kMaxSide,
                 " are read. Check that this is an idx file of images.");
  header.expect_records(count, rows * columns);
  IdxHeader label_header(labels, labels_path);
  label_header.expect(2049, "labels");
  const int64_t label_count = label_header.number();
  label_header.expect_records(label_count, 1);
  HYDRAMIX_CHECK(label_count == count, labels_path, ": has ", label_count, " labels, but ",
                 images_path, " has ", count, " images. Take both from the same set.");
  PackedImages out;
  out.size = {rows, columns};
  out.channels = 1;
  out.labels.assign(labels.begin() + static_cast<std::ptrdiff_t>(label_header.length()),
                    labels.end());
  images.erase(0, header.length());
  out.pixels = std::move(images);
  return out;
}

void append(PackedImages& images, const PackedImages& more) {
  if (images.labels.empty()) {
    images = more;
    return;
  }
  HYDRAMIX_CHECK(images.size == more.size && images.channels == more.channels,
                 "images of different sizes cannot be joined.");
  images.pixels += more.pixels;
  images.labels.insert(images.labels.end(), more.labels.begin(), more.labels.end());
}

std::unique_ptr<ImageCollection> packed_collection(PackedImages images, std::string path,
                                                   std::vector<std::string> classes) {
  return std::make_unique<PackedCollection>(std::move(images), std::move(path), std::move(classes));
}

}  // namespace hydramix
