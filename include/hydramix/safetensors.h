// SPDX-License-Identifier: Apache-2.0
// Reading and writing tensors as .safetensors files:
//
//   8 bytes   header length n, little-endian
//   n bytes   JSON: name -> {"dtype", "shape", "data_offsets": [begin, end]}, and optionally
//             "__metadata__": {text: text}; may end in spaces
//   the rest  raw little-endian row-major data; offsets count from its first byte
//
// A file is checked completely before any tensor is returned: every tensor lies inside the file,
// has the size of its shape and overlaps no other, and recorded checksums match. write() records
// checksums in the metadata, where other readers ignore them; files of other programs have none.
// Every failure is an Error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix::safetensors {

enum class DType {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF8E4M3,
  kF8E5M2,
  kF16,
  kBF16,
  kF32,
  kF64
};

std::string_view dtype_name(DType dtype);  // as the file spells it: "F32", "BF16", "F8_E4M3"
std::size_t dtype_size(DType dtype);       // bytes of one element

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // [] is a scalar; a 0 makes an empty tensor
  // Row-major elements. The format promises no alignment: copy the bytes out (memcpy) or check the
  // address before treating it as an array of anything wider than a byte.
  std::span<const std::byte> data;
};

using Metadata = std::map<std::string, std::string>;

// A checked, read-only file. Views stay valid while any copy of the File or its storage() lives.
class File {
 public:
  // Maps the file into memory: no tensor is copied. A file with checksums is read once from end to
  // end; of others only touched pages are read from disk.
  static File open(const std::filesystem::path& path);
  // As open(), over memory that the caller keeps alive; `origin` replaces the path in errors.
  static File parse(std::span<const std::byte> bytes, std::string origin);

  const std::vector<TensorView>& tensors() const;       // in the order of their data
  const TensorView* find(std::string_view name) const;  // nullptr when there is none
  const TensorView& at(std::string_view name) const;    // Error when there is none
  const Metadata& metadata() const;                     // without the checksums
  bool has_checksums() const;                           // they were there, and they match
  std::shared_ptr<const void> storage() const;          // keeps the mapping alive without the File

 private:
  struct Contents;
  explicit File(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

// Writes the file atomically, with checksums. Tensors are ordered by element size, largest first,
// then by name, which aligns all data to its element size. The same tensors and metadata always
// give the same bytes.
void write(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
           const Metadata& metadata = {});

}  // namespace hydramix::safetensors
