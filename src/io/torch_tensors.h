// SPDX-License-Identifier: Apache-2.0
// Recognises the calls in a PyTorch pickle that would rebuild tensors, and turns each into a view
// of the archive's bytes.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hydramix/safetensors.h"
#include "io/pickle.h"

namespace hydramix::torch_archive {

class TensorReader {
 public:
  using Storages = std::map<std::string_view, std::span<const std::byte>>;  // key -> bytes

  // All tensors together may take `max_bytes`; the document and the storages must outlive this.
  TensorReader(const pickle::Document& document, const Storages& storages, std::size_t max_bytes,
               std::string origin);

  // Removes wrappers around a value: a parameter around its data, a type around a dict.
  pickle::Id unwrapped(pickle::Id id) const;
  bool is_tensor(pickle::Id id) const { return call_of(id).has_value(); }
  // Views the storage, or a row-major copy. The archive and `copies` own them.
  safetensors::TensorView read(pickle::Id id, std::string name,
                               std::deque<std::vector<std::byte>>& copies);

 private:
  struct Call {
    const std::vector<pickle::Id>* arguments;
    bool has_dtype;  // _rebuild_tensor_v3 passes the dtype
  };
  struct Storage {
    std::span<const std::byte> bytes;
    std::optional<safetensors::DType> dtype;  // nothing for raw bytes
  };
  std::optional<Call> call_of(pickle::Id id) const;
  Storage storage_of(const Call& call, const std::string& tensor) const;
  safetensors::DType dtype_of(const Call& call, const Storage& storage,
                              const std::string& tensor) const;
  std::vector<std::int64_t> extents(pickle::Id id, const char* what,
                                    const std::string& tensor) const;

  const pickle::Document& document_;
  const Storages& storages_;
  std::size_t bytes_left_, max_bytes_;
  std::string origin_;
};

}  // namespace hydramix::torch_archive
