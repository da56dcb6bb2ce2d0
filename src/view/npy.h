// SPDX-License-Identifier: Apache-2.0
// NumPy's array file, version 1.0: the magic bytes, a header that is a Python dict padded with
// blanks so that the data starts at a multiple of 64 bytes, then the little-endian entries in C
// order. numpy.load() reads it back bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace hydramix {

// '<f8' and '<f4'. The product of the shape must be the number of values; an empty shape is a
// scalar. The file is written atomically.
void write_npy(const std::filesystem::path& path, const std::vector<int64_t>& shape,
               std::span<const double> values);
void write_npy(const std::filesystem::path& path, const std::vector<int64_t>& shape,
               std::span<const float> values);

// The header of an array (rows, width) of float32, for a file whose rows follow one by one. Its
// length does not depend on the number of rows, so it can be replaced when that is known.
std::string npy_header_of_rows(int64_t rows, int64_t width);

}  // namespace hydramix
