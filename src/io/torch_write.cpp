// SPDX-License-Identifier: Apache-2.0
// Writes a pickle of protocol 2, opcode by opcode, then the storages. The root is a plain dict:
// load_state_dict() accepts it, and so does LibTorch's own reader, which cannot read an
// OrderedDict.
#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/atomic_file.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/pickle.h"
#include "io/safetensors_header.h"
#include "io/torch_archive.h"
#include "io/torch_limits.h"
#include "io/torch_types.h"
#include "io/zip_archive.h"

namespace hydramix::torch_archive {
namespace {

const std::string kPrefix = "archive/";

class PickleWriter {
 public:
  void opcodes(std::string_view codes) { bytes_ += codes; }
  void global(std::string_view module, std::string_view name) {
    bytes_ += concat('c', module, '\n', name, '\n');
  }
  void text(std::string_view text) {
    bytes_ += 'X';
    little_endian(text.size(), 4);
    bytes_ += text;
  }
  void integer(std::int64_t number) {
    const bool small = number >= 0 && number <= std::numeric_limits<std::int32_t>::max();
    bytes_ += small ? "J" : "\x8a\x08";
    little_endian(static_cast<std::uint64_t>(number), small ? 4 : 8);
  }
  void tuple(const std::vector<std::int64_t>& numbers) {
    bytes_ += '(';
    for (const std::int64_t number : numbers) integer(number);
    bytes_ += 't';
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void little_endian(std::uint64_t number, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(number >> (8 * i));
  }

  std::string bytes_;
};

const TypeNames& type_names(safetensors::DType dtype) {
  for (const auto& names : kTypeNames)
    if (names.dtype == dtype) return names;
  throw Error("torch: not a value of DType. Use one of its named constants.");
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  return strides;
}

// _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()), or _v3 with the dtype.
void write_tensor(PickleWriter& out, const TensorView& tensor, const std::string& key) {
  const auto& names = type_names(tensor.dtype);
  const bool untyped = names.storage.empty();
  out.global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.opcodes("((");
  out.text("storage");
  untyped ? out.global("torch.storage", kUntypedStorage) : out.global("torch", names.storage);
  out.text(key);
  out.text("cpu");
  const std::size_t unit = untyped ? 1 : safetensors::dtype_size(tensor.dtype);
  out.integer(static_cast<std::int64_t>(tensor.data.size() / unit));
  out.opcodes("tQ");
  out.integer(0);
  out.tuple(tensor.shape);
  out.tuple(row_major_strides(tensor.shape));
  out.opcodes("\x89");  // False: no gradient
  out.global("collections", "OrderedDict");
  out.opcodes(")R");  // no hooks
  if (untyped) out.global("torch", names.name);
  out.opcodes("tR");
}

void check(const std::vector<TensorView>& tensors, const std::string& origin) {
  HYDRAMIX_CHECK(tensors.size() <= kMaxTensors, origin, ": ", tensors.size(),
                 " tensors, a .pt file takes ", kMaxTensors,
                 ". Write a .safetensors file instead.");
  std::set<std::string_view> seen;
  for (const auto& tensor : tensors) {
    const auto prefix = [&] { return concat(origin, ": tensor ", in_quotes(tensor.name)); };
    HYDRAMIX_CHECK(seen.insert(tensor.name).second, prefix(),
                   " is given twice; names must be unique. Rename one of them.");
    HYDRAMIX_CHECK(tensor.name.size() <= kLongestName, prefix(), ": the name has ",
                   tensor.name.size(), " bytes, a .pt file takes ", kLongestName,
                   ". Shorten it, or write a .safetensors file.");
    HYDRAMIX_CHECK(tensor.shape.size() <= kMaxDimensions, prefix(), ": has ", tensor.shape.size(),
                   " dimensions, PyTorch takes ", kMaxDimensions,
                   ". Write a .safetensors file instead.");
    const auto size = safetensors::byte_size(tensor.dtype, tensor.shape);
    HYDRAMIX_CHECK(size == tensor.data.size(), prefix(), ": ",
                   safetensors::dtype_name(tensor.dtype), " ",
                   safetensors::shape_text(tensor.shape), " does not take the ", tensor.data.size(),
                   " bytes that were given. Pass contiguous row-major data.");
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text));
}

// The reader limits the number of values, of which a tensor takes about twenty.
void check_readable(std::string_view pickle, const std::string& origin) {
  try {
    pickle::Document::parse(bytes_of(pickle), origin);
  } catch (const Error& error) {
    throw Error(concat(error.what(),
                       " It could not be read again, so it is not written: write a "
                       ".safetensors file, or split the tensors over several."));
  }
}

}  // namespace

void write(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
           const Metadata& metadata) {
  check(tensors, path.string());
  std::map<std::tuple<const std::byte*, std::size_t, safetensors::DType>, std::string> shared;
  std::vector<std::span<const std::byte>> storages;
  PickleWriter pickle;
  pickle.opcodes("\x80\x02}(");
  for (const auto& tensor : tensors) {
    const auto [at, fresh] = shared.try_emplace(
        {tensor.data.data(), tensor.data.size(), tensor.dtype}, std::to_string(storages.size()));
    if (fresh) storages.push_back(tensor.data);
    pickle.text(tensor.name);
    write_tensor(pickle, tensor, at->second);
  }
  pickle.opcodes("u.");
  check_readable(pickle.bytes(), path.string());

  AtomicFile file(path);
  ZipWriter zip(file);
  zip.add(kPrefix + "data.pkl", bytes_of(pickle.bytes()));
  zip.add(kPrefix + "byteorder", bytes_of("little"));
  for (std::size_t i = 0; i < storages.size(); ++i)
    zip.add(concat(kPrefix, "data/", i), storages[i]);
  if (!metadata.empty())
    zip.add(kPrefix + std::string(kMetadataEntry), bytes_of(nlohmann::json(metadata).dump()));
  zip.add(kPrefix + "version", bytes_of("3\n"));
  zip.finish();
  file.commit();
}

}  // namespace hydramix::torch_archive
