// SPDX-License-Identifier: Apache-2.0
// The writer. Elements are 1, 2, 4 or 8 bytes wide, so laying the widest out first from an offset
// divisible by 8 aligns every tensor without padding, which the format would not allow. The header
// is written directly rather than built as a JSON document, because it is flat and has a fixed
// order.
#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "base/atomic_file.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "hydramix/safetensors.h"
#include "io/safetensors_checksums.h"
#include "io/safetensors_header.h"

namespace hydramix::safetensors {
namespace {

constexpr std::size_t kDataAlignment = 8;

std::string json_string(std::string_view text, std::string_view what, const std::string& origin) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(concat(origin, ": ", what, " ", in_quotes(text),
                       " is not valid UTF-8, which the format requires. Encode it first."));
  }
}

void check(const std::vector<TensorView>& tensors, const std::string& origin) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    const auto prefix = [&] { return concat(origin, ": tensor ", in_quotes(tensor.name)); };
    json_string(tensor.name, "the tensor name", origin);  // throws unless it is UTF-8
    HYDRAMIX_CHECK(tensor.name != kMetadataKey, prefix(),
                   ": the name is reserved for the metadata. Choose another.");
    HYDRAMIX_CHECK(names.insert(tensor.name).second, prefix(),
                   " is given twice; names must be unique. Rename one of them.");
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                      [](std::int64_t extent) { return extent < 0; });
    HYDRAMIX_CHECK(!negative, prefix(), ": the shape ", shape_text(tensor.shape),
                   " has a negative entry; give the real sizes.");
    const auto size = byte_size(tensor.dtype, tensor.shape);
    HYDRAMIX_CHECK(size.has_value(), prefix(), ": the size of ", dtype_name(tensor.dtype), " ",
                   shape_text(tensor.shape), " overflows 63 bits; give the real sizes.");
    HYDRAMIX_CHECK(*size == tensor.data.size(), prefix(), ": ", dtype_name(tensor.dtype), " ",
                   shape_text(tensor.shape), " takes ", *size, " bytes, but ", tensor.data.size(),
                   " were given. Pass contiguous row-major data.");
  }
}

std::string header_of(const std::vector<const TensorView*>& ordered, const Metadata& metadata,
                      const std::string& origin) {
  std::string header = "{";
  const auto separate = [&header] {
    if (header.back() != '{') header += ',';
  };
  header += concat('"', kMetadataKey, "\":{");
  for (const auto& [key, value] : metadata) {
    separate();
    header += json_string(key, "the metadata key", origin);
    header += ':';
    header += json_string(value, "the metadata value", origin);
  }
  header += '}';
  std::uint64_t offset = 0;
  for (const TensorView* tensor : ordered) {
    separate();
    header += json_string(tensor->name, "the tensor name", origin);
    header += concat(":{\"dtype\":\"", dtype_name(tensor->dtype), "\",\"shape\":[");
    for (std::size_t i = 0; i < tensor->shape.size(); ++i)
      header += concat(i == 0 ? "" : ",", tensor->shape[i]);
    header += concat("],\"data_offsets\":[", offset, ',', offset + tensor->data.size(), "]}");
    offset += tensor->data.size();
  }
  header += '}';
  const std::size_t misaligned = (kLengthBytes + header.size()) % kDataAlignment;
  if (misaligned != 0) header.append(kDataAlignment - misaligned, ' ');
  HYDRAMIX_CHECK(header.size() <= kMaxHeaderBytes, origin, ": the header would take ",
                 header.size(), " bytes, over the limit of ", kMaxHeaderBytes,
                 ". Shorten names or metadata, or split the tensors over several files.");
  return header;
}

}  // namespace

void write(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
           const Metadata& metadata) {
  const std::string origin = path.string();
  check(tensors, origin);
  std::vector<const TensorView*> ordered;
  ordered.reserve(tensors.size());
  for (const auto& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const TensorView* a, const TensorView* b) {
    const std::size_t a_size = dtype_size(a->dtype), b_size = dtype_size(b->dtype);
    return a_size != b_size ? a_size > b_size : a->name < b->name;
  });
  Metadata complete = metadata;
  set_checksums(complete, tensors);
  const std::string header = header_of(ordered, complete, origin);

  std::array<unsigned char, kLengthBytes> length = {};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<unsigned char>(std::uint64_t{header.size()} >> (8 * i));

  AtomicFile file(path);
  file.write(length.data(), length.size());
  file.write(header);
  for (const TensorView* tensor : ordered) file.write(tensor->data.data(), tensor->data.size());
  file.commit();
}

}  // namespace hydramix::safetensors
