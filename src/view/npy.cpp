// SPDX-License-Identifier: Apache-2.0
// The entries are written directly from memory, without a copy, because matrices may be large.
#include "view/npy.h"

#include <bit>
#include <limits>
#include <string>
#include <string_view>

#include "base/atomic_file.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

static_assert(std::endian::native == std::endian::little, "entries are written as they lie");

constexpr std::size_t kAlignment = 64;
constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};

// A Python tuple: (), (3,), (3, 4).
std::string shape_tuple(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "(" + join(sizes) + (shape.size() == 1 ? ",)" : ")");
}

// Whether the product of the sizes is `count`; by division, since the product could overflow.
bool holds(const std::vector<int64_t>& shape, std::size_t count) {
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return false;
    if (size == 0) empty = true;
  }
  if (empty) return count == 0;
  std::size_t product = 1;
  for (const int64_t size : shape) {
    if (static_cast<std::size_t>(size) > count / product) return false;
    product *= static_cast<std::size_t>(size);
  }
  return product == count;
}

// `spare` bytes are kept free for a larger shape.
std::string header(std::string_view type, const std::vector<int64_t>& shape,
                   std::size_t spare = 0) {
  std::string dict = concat("{'descr': '", type,
                            "', 'fortran_order': False, 'shape': ", shape_tuple(shape), ", }");
  const std::size_t before = kMagic.size() + 2;  // two bytes hold the length
  const std::size_t used = before + dict.size() + spare + 1;
  dict.append(spare + (kAlignment - used % kAlignment) % kAlignment, ' ');
  dict += '\n';
  HYDRAMIX_CHECK(dict.size() <= std::numeric_limits<uint16_t>::max(), "npy: ", shape.size(),
                 " dimensions make the header longer than the format allows. Merge some.");
  std::string out(kMagic);
  out += static_cast<char>(dict.size() & 0xFF);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

template <class T>
void write_array(const std::filesystem::path& path, std::string_view type,
                 const std::vector<int64_t>& shape, std::span<const T> values) {
  HYDRAMIX_CHECK(holds(shape, values.size()), "npy: ", path.string(), ": the shape ",
                 shape_tuple(shape), " does not hold the ", values.size(),
                 " values given. The product of its sizes must be their number.");
  AtomicFile file(path);
  file.write(header(type, shape));
  file.write(values.data(), values.size_bytes());
  file.commit();
}

}  // namespace

std::string npy_header_of_rows(int64_t rows, int64_t width) {
  constexpr std::size_t kDigits = 19;  // of the largest count
  return header("<f4", {rows, width}, kDigits - std::to_string(rows).size());
}

void write_npy(const std::filesystem::path& path, const std::vector<int64_t>& shape,
               std::span<const double> values) {
  write_array(path, "<f8", shape, values);
}

void write_npy(const std::filesystem::path& path, const std::vector<int64_t>& shape,
               std::span<const float> values) {
  write_array(path, "<f4", shape, values);
}

}  // namespace hydramix
