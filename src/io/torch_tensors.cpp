// SPDX-License-Identifier: Apache-2.0
#include "io/torch_tensors.h"

#include <cstring>
#include <utility>

#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/safetensors_header.h"
#include "io/torch_types.h"

namespace hydramix::torch_archive {
namespace {

using pickle::Id;
using pickle::Kind;
using pickle::Value;
using safetensors::DType;

constexpr std::string_view kUtils = "torch._utils";
constexpr std::string_view kDamaged =
    " The file is damaged or was not written by torch.save: save it again.";
constexpr int kMaxWrappers = 8;

struct Layout {
  std::vector<std::int64_t> shape, strides;  // in elements
  std::int64_t offset;
};

bool is_row_major(const Layout& layout) {
  std::int64_t expected = 1;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    if (layout.shape[i] != 1 && layout.strides[i] != expected) return false;
    expected *= layout.shape[i];
  }
  return true;
}

// One past the last element of the tensor, counted from the start of the storage; nothing when it
// overflows. The tensor must not be empty.
std::optional<std::int64_t> reach(const Layout& layout) {
  std::int64_t last = layout.offset;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(layout.shape[i] - 1, layout.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  if (__builtin_add_overflow(last, 1, &last)) return std::nullopt;
  return last;
}

// Copies the elements in row-major order. The tensor must not be empty.
void copy_strided(const std::byte* source, const Layout& layout, std::size_t element,
                  std::vector<std::byte>& target) {
  std::vector<std::int64_t> index(layout.shape.size(), 0);
  std::int64_t at = layout.offset;
  for (std::size_t written = 0; written < target.size(); written += element) {
    std::memcpy(target.data() + written, source + static_cast<std::size_t>(at) * element, element);
    for (std::size_t i = index.size(); i-- > 0;) {
      at += layout.strides[i];
      if (++index[i] < layout.shape[i]) break;
      at -= layout.strides[i] * index[i];
      index[i] = 0;
    }
  }
}

}  // namespace

TensorReader::TensorReader(const pickle::Document& document, const Storages& storages,
                           std::size_t max_bytes, std::string origin)
    : document_(document),
      storages_(storages),
      bytes_left_(max_bytes),
      max_bytes_(max_bytes),
      origin_(std::move(origin)) {}

Id TensorReader::unwrapped(Id id) const {
  for (int i = 0; i < kMaxWrappers; ++i) {
    const Value& value = document_[id];
    if (value.kind != Kind::kObject) break;
    const Value& callable = document_[value.callable];
    const auto& arguments = document_[value.arguments].items;
    const bool wrapper = callable.is_global(kUtils, "_rebuild_parameter") ||
                         callable.is_global(kUtils, "_rebuild_parameter_with_state") ||
                         callable.is_global("torch.jit._pickle", "restore_type_tag") ||
                         callable.is_global("torch.jit._pickle", "build_tensorlist");
    if (!wrapper || arguments.empty()) break;
    id = arguments[0];
  }
  return id;
}

std::optional<TensorReader::Call> TensorReader::call_of(Id id) const {
  const Value& value = document_[unwrapped(id)];
  if (value.kind != Kind::kObject) return std::nullopt;
  const Value* callable = &document_[value.callable];
  const Value* arguments = &document_[value.arguments];
  // A subclass of Tensor: (how, type, arguments, state).
  if (callable->is_global("torch._tensor", "_rebuild_from_type_v2") &&
      arguments->items.size() == 4) {
    callable = &document_[arguments->items[0]];
    arguments = &document_[arguments->items[2]];
    if (arguments->kind != Kind::kTuple) return std::nullopt;
  }
  const bool v3 = callable->is_global(kUtils, "_rebuild_tensor_v3");
  if (!v3 && !callable->is_global(kUtils, "_rebuild_tensor_v2") &&
      !callable->is_global(kUtils, "_rebuild_tensor"))
    return std::nullopt;
  return Call{&arguments->items, v3};
}

TensorReader::Storage TensorReader::storage_of(const Call& call, const std::string& tensor) const {
  const Value& persistent = document_[(*call.arguments)[0]];
  const Value& id = document_[persistent.callable];
  const bool named =
      persistent.kind == Kind::kPersistent && id.kind == Kind::kTuple && id.items.size() >= 5 &&
      document_[id.items[0]].text == "storage" && document_[id.items[1]].kind == Kind::kGlobal &&
      document_[id.items[2]].kind == Kind::kText && document_[id.items[4]].kind == Kind::kInteger;
  HYDRAMIX_CHECK(named, tensor, " names no storage.", kDamaged);
  const Value& type = document_[id.items[1]];
  const auto found = storages_.find(document_[id.items[2]].text);
  HYDRAMIX_CHECK(found != storages_.end(), tensor, ": its storage ",
                 in_quotes(document_[id.items[2]].text), " is not in the archive.", kDamaged);

  Storage storage{found->second, std::nullopt};
  for (const auto& names : kTypeNames)
    if (!names.storage.empty() && names.storage == type.text) storage.dtype = names.dtype;
  HYDRAMIX_CHECK(storage.dtype.has_value() || type.text == kUntypedStorage, tensor,
                 ": its elements are of ", in_quotes(type.text),
                 ", which has no counterpart here. Convert it to a real number or integer type "
                 "before saving.");
  const std::size_t unit = storage.dtype ? safetensors::dtype_size(*storage.dtype) : 1;
  const std::int64_t count = document_[id.items[4]].integer;
  HYDRAMIX_CHECK(count >= 0 && static_cast<std::uint64_t>(count) <= found->second.size() / unit,
                 tensor, ": its storage of ", found->second.size(), " bytes is said to hold ",
                 count, " elements of ", unit, " bytes.", kDamaged);
  storage.bytes = found->second.first(static_cast<std::size_t>(count) * unit);
  return storage;
}

std::vector<std::int64_t> TensorReader::extents(Id id, const char* what,
                                                const std::string& tensor) const {
  const Value* list = &document_[id];
  // torch.Size((2, 3))
  if (list->kind == Kind::kObject && document_[list->callable].is_global("torch", "Size") &&
      document_[list->arguments].items.size() == 1)
    list = &document_[document_[list->arguments].items[0]];
  HYDRAMIX_CHECK((list->kind == Kind::kTuple || list->kind == Kind::kList) &&
                     list->items.size() <= kMaxDimensions,
                 tensor, ": its ", what, " are no tuple of at most ", kMaxDimensions, " integers.",
                 kDamaged);
  std::vector<std::int64_t> numbers;
  for (const Id item : list->items) {
    const Value& number = document_[item];
    HYDRAMIX_CHECK(number.kind == Kind::kInteger && number.integer >= 0, tensor, ": its ", what,
                   " hold something other than integers from 0 on.", kDamaged);
    numbers.push_back(number.integer);
  }
  return numbers;
}

DType TensorReader::dtype_of(const Call& call, const Storage& storage,
                             const std::string& tensor) const {
  if (!call.has_dtype) {
    HYDRAMIX_CHECK(storage.dtype.has_value(), tensor, ": nothing says the type of its elements.",
                   kDamaged);
    return *storage.dtype;
  }
  const Value& said = document_[(*call.arguments)[6]];
  for (const auto& names : kTypeNames)
    if (said.is_global("torch", names.name)) return names.dtype;
  throw Error(concat(tensor, ": its dtype is ", in_quotes(said.text),
                     ", which has no counterpart here. Convert it before saving."));
}

safetensors::TensorView TensorReader::read(Id id, std::string name,
                                           std::deque<std::vector<std::byte>>& copies) {
  const std::string tensor = concat(origin_, ": tensor ", in_quotes(name));
  const auto call = call_of(id);
  HYDRAMIX_CHECK(call.has_value(), tensor, " is no tensor.");
  const auto& arguments = *call->arguments;
  HYDRAMIX_CHECK(arguments.size() >= (call->has_dtype ? 7u : 4u), tensor, " is rebuilt from only ",
                 arguments.size(), " arguments.", kDamaged);
  const Storage storage = storage_of(*call, tensor);
  const DType dtype = dtype_of(*call, storage, tensor);
  const Value& offset = document_[arguments[1]];
  HYDRAMIX_CHECK(offset.kind == Kind::kInteger && offset.integer >= 0, tensor,
                 ": its storage offset is no integer from 0 on.", kDamaged);
  const Layout layout{extents(arguments[2], "sizes", tensor),
                      extents(arguments[3], "strides", tensor), offset.integer};
  HYDRAMIX_CHECK(layout.shape.size() == layout.strides.size(), tensor, ": has ",
                 layout.shape.size(), " sizes but ", layout.strides.size(), " strides.", kDamaged);
  const auto size = safetensors::byte_size(dtype, layout.shape);
  HYDRAMIX_CHECK(size.has_value(), tensor, ": the size of ", safetensors::dtype_name(dtype), " ",
                 safetensors::shape_text(layout.shape), " overflows 63 bits.", kDamaged);
  if (*size == 0) return {std::move(name), dtype, layout.shape, {}};

  const std::size_t element = safetensors::dtype_size(dtype);
  const auto end = reach(layout);
  HYDRAMIX_CHECK(end && static_cast<std::uint64_t>(*end) <= storage.bytes.size() / element, tensor,
                 ": ", safetensors::shape_text(layout.shape), " with strides ",
                 safetensors::shape_text(layout.strides), " from ", layout.offset,
                 " reaches beyond the ", storage.bytes.size() / element,
                 " elements of its storage.", kDamaged);
  HYDRAMIX_CHECK(*size <= bytes_left_, origin_, ": its tensors take more than ", max_bytes_,
                 " bytes, many times what the file has: they are views of each other or expanded. "
                 "Save contiguous copies.");
  bytes_left_ -= static_cast<std::size_t>(*size);
  if (is_row_major(layout))
    return {std::move(name), dtype, layout.shape,
            storage.bytes.subspan(static_cast<std::size_t>(layout.offset) * element,
                                  static_cast<std::size_t>(*size))};
  auto& copy = copies.emplace_back(static_cast<std::size_t>(*size));
  copy_strided(storage.bytes.data(), layout, element, copy);
  return {std::move(name), dtype, layout.shape, copy};
}

}  // namespace hydramix::torch_archive
