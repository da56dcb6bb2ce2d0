// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for images: JPEG, PNG, CIFAR-10 and idx. Any bytes are refused with an Error or
// give an image of the size that its header says, and a part of a picture has the same pixels as
// the whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "hydramix/error.h"
#include "images/decode.h"
#include "images/packed_images.h"

namespace {

using namespace hydramix;

// Larger ones are decoded in the same way, and slowly.
constexpr std::int64_t kMaxPixels = 1 << 16;

void decode(EncodedImage bytes) {
  const ImageSize size = encoded_size(bytes, "fuzz input");
  if (size.height * size.width > kMaxPixels) return;
  const Image whole = decode_image(bytes, "fuzz input");
  if (whole.height != size.height || whole.width != size.width) __builtin_trap();
  // The middle third, for which nothing is reduced.
  const std::int64_t top = size.height / 3, left = size.width / 3;
  const std::int64_t height = (size.height + 2) / 3, width = (size.width + 2) / 3;
  const ImagePart part = decode_part(bytes, "fuzz input", [&](const ImageSize&) {
    return WantedPart{{static_cast<double>(top), static_cast<double>(left),
                       static_cast<double>(height), static_cast<double>(width)},
                      {height, width}};
  });
  for (std::int64_t y = 0; y < height; ++y) {
    const auto* expected = whole.pixel(top + y, left);
    const auto* found = part.image.pixel(static_cast<std::int64_t>(part.box.top) + y,
                                         static_cast<std::int64_t>(part.box.left));
    if (!std::equal(expected, expected + 3 * width, found)) __builtin_trap();
  }
}

void parse(const std::string& bytes) {
  PackedImages images;
  if (bytes.starts_with('\0')) {
    // An idx file of images, and one of labels after the same number of bytes as the last byte
    // says.
    const auto split = std::min(bytes.size() - 1,
                                static_cast<std::size_t>(static_cast<unsigned char>(bytes.back())));
    images = parse_idx(bytes.substr(0, split), "fuzz images",
                       bytes.substr(split, bytes.size() - 1 - split), "fuzz labels");
  } else {
    images = parse_cifar10(bytes, "fuzz input");
  }
  const auto collection =
      packed_collection(std::move(images), "fuzz input", {"0", "1", "2", "3", "4"});
  for (std::int64_t i = 0; i < collection->size(); ++i) {
    const Image image = collection->load(i);
    if (collection->label(i) > 4 || image.rgb.empty()) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    decode({data, size});
  } catch (const Error&) {
  }
  try {
    parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const Error&) {
  }
  return 0;
}
