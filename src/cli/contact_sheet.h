// SPDX-License-Identifier: Apache-2.0
// Many small pictures on one page: titled sections of tiles in rows, with a name and a note under
// each tile.
#pragma once

#include <string>
#include <vector>

#include "images/image.h"
#include "view/matrix_plot.h"

namespace hydramix {

struct SheetTile {
  Image image;
  std::string name, note;
};

struct SheetSection {
  std::string title, note;
  std::vector<SheetTile> tiles;
};

struct ContactSheet {
  std::string title, note;
  std::vector<SheetSection> sections;
};

// Throws where there is nothing to show.
Page layout_sheet(const ContactSheet& sheet);

}  // namespace hydramix
