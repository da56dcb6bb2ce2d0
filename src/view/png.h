// SPDX-License-Identifier: Apache-2.0
// Matrices as PNG files, pixels only (layout_pixels), and the encoder of the images inside an SVG.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "view/canvas.h"
#include "view/matrix_plot.h"

namespace hydramix {

// The bytes of an eight-bit RGB PNG.
std::string encode_png(const Canvas& canvas);
// The same as "data:image/png;base64,...", for an image inside SVG or HTML.
std::string png_data_uri(const Canvas& canvas);

// Writes the file atomically.
void write_png(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options = {});

}  // namespace hydramix
