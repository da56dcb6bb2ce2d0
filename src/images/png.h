// SPDX-License-Identifier: Apache-2.0
// PNG by libpng; decode.h is the entry.
#pragma once

#include "images/decode.h"

namespace hydramix {

ImageSize png_size(EncodedImage bytes, const std::string& path);
Image decode_png(EncodedImage bytes, const std::string& path);
// The bytes of an eight-bit RGB PNG.
std::string encode_png(const Image& image);

}  // namespace hydramix
