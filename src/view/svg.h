// SPDX-License-Identifier: Apache-2.0
// Labelled pages of matrices as SVG (layout_page). Each matrix is one embedded PNG: a rectangle per
// entry would take ten times the bytes. The PNG has the page's resolution, not one pixel per entry,
// because some renderers blur enlarged images.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "view/matrix_plot.h"

namespace hydramix {

// A page as an SVG element, to be embedded in HTML.
std::string svg_page(const Page& page);
std::string svg_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options = {});

// Writes a page to a file, atomically.
void write_svg(const std::filesystem::path& path, const Page& page);
void write_svg(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options = {});

}  // namespace hydramix
