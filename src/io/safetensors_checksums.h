// SPDX-License-Identifier: Apache-2.0
// Checksums of a .safetensors file, kept in its metadata, which other readers ignore:
//
//   "hydramix.crc32c:NAME"  CRC-32C of the bytes of the tensor NAME
//   "hydramix.crc32c"       CRC-32C of a text about the rest: for each tensor in the order of names
//                           a line "NAME F32 2,3", for each other key of the metadata a line
//                           "KEY=VALUE"
//
// A sum per tensor says which one is damaged. The sum of the rest covers names, types, shapes and
// metadata, and the sums of the tensors. Damage to one key cannot make a file appear to have none.
#pragma once

#include <span>

#include "hydramix/safetensors.h"

namespace hydramix::safetensors {

// Replaces the checksums in the metadata by those of these tensors.
void set_checksums(Metadata& metadata, std::span<const TensorView> tensors);

// Removes the checksums from the metadata. Returns false if there are none; throws an Error that
// names the tensor if one does not match.
bool take_checksums(Metadata& metadata, std::span<const TensorView> tensors,
                    const std::string& origin);

}  // namespace hydramix::safetensors
