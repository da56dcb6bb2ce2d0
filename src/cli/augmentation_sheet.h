// SPDX-License-Identifier: Apache-2.0
// The contact sheet of augmentations: each operation of RandAugment, crops, whole images of
// training, mixed pairs, and erased boxes.
#pragma once

#include "cli/contact_sheet.h"
#include "images/augment.h"
#include "images/image_collection.h"

namespace hydramix {

// Augmentations that the options switch off have no section.
ContactSheet augmentation_sheet(const ImageCollection& images, const AugmentOptions& options,
                                uint64_t seed);

}  // namespace hydramix
