// SPDX-License-Identifier: Apache-2.0
// Labelled pages of matrices as SVG (layout_page). Each matrix is one embedded PNG: a rectangle an
// entry would take ten times the bytes. The PNG has the page's resolution, not a pixel an entry,
// because some renderers blur what they enlarge.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "view/matrix_plot.h"

namespace hydramix {

// The page as an SVG element, to be embedded in HTML.
std::string svg_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options = {});

// Writes the page; the file appears whole or not at all.
void write_svg(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options = {});

}  // namespace hydramix
