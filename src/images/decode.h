// SPDX-License-Identifier: Apache-2.0
// Decodes JPEG and PNG, which it recognises by their first bytes. `path` names the picture in
// errors.
//
// Orientation tags (EXIF) are ignored, as the published ImageNet results do. Transparent pixels are
// blended with white. Grey pictures get three equal channels; CMYK is converted without a profile.
// A damaged or truncated picture is an Error: libjpeg alone would only warn and fill the rest with
// grey.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "images/image_part.h"

namespace hydramix {

// Above any photograph. Checked before memory for pixels is allocated.
inline constexpr int64_t kMaxImagePixels = 100'000'000;

using EncodedImage = std::span<const uint8_t>;

// The size, read from the header alone.
ImageSize encoded_size(EncodedImage bytes, const std::string& path);

Image decode_image(EncodedImage bytes, const std::string& path);
// The part that `choose` asks for, of a JPEG at the largest reduction that the size allows.
ImagePart decode_part(EncodedImage bytes, const std::string& path, const ChoosePart& choose);

}  // namespace hydramix
