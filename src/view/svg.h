// SPDX-License-Identifier: Apache-2.0
// Pages of matrices as SVG files: the same layout as the PNG, with text that can be selected and
// searched. Each matrix is one embedded PNG: a rectangle an entry would take ten times the bytes.
// It is embedded at the page's resolution, not at a pixel an entry, because some renderers blur
// what they enlarge even when told not to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "view/matrix_plot.h"

namespace hydramix {

// The page as an SVG element, for instance to stand in an HTML page.
std::string svg_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options = {});

// Writes the page; the file appears whole or not at all.
void write_svg(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options = {});

}  // namespace hydramix
