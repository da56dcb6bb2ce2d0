// SPDX-License-Identifier: Apache-2.0
#include "images/image_collection.h"

namespace hydramix {

ImagePart ImageCollection::load_part(int64_t i, const ChoosePart& choose) const {
  Image image = load(i);
  const ImageBox box = choose({image.height, image.width}).box;
  return {std::move(image), box};
}

}  // namespace hydramix
