// SPDX-License-Identifier: Apache-2.0
// The JSON header of a .safetensors file, and what its reader and writer share. parse_header checks
// the header's own form: types, fields, duplicates. The reader checks the offsets against the
// shapes and the data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hydramix/safetensors.h"

namespace hydramix::safetensors {

// The limit that other implementations of the format apply too; it bounds the memory that a hostile
// file can request.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::string_view kMetadataKey = "__metadata__";
// The end of most error messages.
inline constexpr std::string_view kDamaged =
    " The file is damaged or its writer is wrong: export it again.";

struct HeaderEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // every entry >= 0
  std::uint64_t begin = 0, end = 0;
};

struct Header {
  std::vector<HeaderEntry> tensors;  // in the order of the header
  Metadata metadata;
};

// `origin` names the file in errors.
Header parse_header(std::string_view json, const std::string& origin);

// Bytes of a row-major tensor whose shape has no negative entry; nothing when they, or the strides
// of an empty tensor such as [0, 2^40, 2^40], do not fit 63 bits.
std::optional<std::uint64_t> byte_size(DType dtype, const std::vector<std::int64_t>& shape);

// For messages: "[2, 3]".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace hydramix::safetensors
