// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo; decode.h is the entry. libjpeg reduces a picture to a half, a quarter or
// an eighth by computing fewer points of the inverse cosine transform, which costs less than
// decoding all pixels and gives the mean of each square.
#pragma once

#include "images/decode.h"

namespace hydramix {

ImageSize jpeg_size(EncodedImage bytes, const std::string& path);
ImagePart decode_jpeg(EncodedImage bytes, const std::string& path, const ChoosePart& choose);
// The bytes of a JPEG with chroma at half the resolution. `quality` is 1 to 100.
std::string encode_jpeg(const Image& image, int quality);

}  // namespace hydramix
