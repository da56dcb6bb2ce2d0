// SPDX-License-Identifier: Apache-2.0
// Checkpoints as torch.save writes them since PyTorch 1.6: a zip archive with a pickle of
// everything but the numbers, and one entry of raw bytes per storage.
//
//   <prefix>/data.pkl     the pickle; tensors in it name storage, offset, shape and strides
//   <prefix>/byteorder    "little" or "big"; missing in older files, which are little-endian
//   <prefix>/data/<key>   the bytes of a storage
//   <prefix>/version      "3"
//
// Only tensors are read, and nothing in the pickle is run. Views lie inside the file, or in memory
// bounded by the file's size. Every failure is an Error that names the file.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/safetensors.h"

namespace hydramix::torch_archive {

using safetensors::Metadata;
using safetensors::TensorView;

enum class Selection {
  // The model's weights: the tensors under state_dict, model_state_dict, model or state.model if
  // present, without prefixes like "module." that all names share.
  kWeights,
  kEverything,  // every tensor under its full path: "optimizer.state.0.exp_avg"
  kAnything     // as kEverything, and a file without tensors is accepted
};

// A checked, read-only file. Views stay valid while any copy of the File or its storage() lives.
class File {
 public:
  // Maps the file into memory. Tensors that are not row-major are copied, the others are not.
  static File open(const std::filesystem::path& path, Selection selection = Selection::kWeights);
  // As open(), over memory that the caller keeps alive; `origin` replaces the path in errors.
  static File parse(std::span<const std::byte> bytes, const std::string& origin,
                    Selection selection = Selection::kWeights);

  const std::vector<TensorView>& tensors() const;  // by name
  const Metadata& metadata() const;                // as given to write()
  // Sentences for the user about what was chosen, renamed or skipped.
  const std::vector<std::string>& notes() const;
  bool has_checksums() const;  // of all numbers; they match
  std::shared_ptr<const void> storage() const;

 private:
  struct Contents;
  explicit File(std::shared_ptr<const Contents> contents);

  std::shared_ptr<const Contents> contents_;
};

// Writes a dict of tensors for torch.load(path, weights_only=True) and LibTorch's
// torch::pickle_load. The write is atomic; the same tensors and metadata always give the same
// bytes. Tensors that view the same data share a storage. Throws an Error for what File could not
// read: see torch_limits.h.
void write(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
           const Metadata& metadata = {});

}  // namespace hydramix::torch_archive
