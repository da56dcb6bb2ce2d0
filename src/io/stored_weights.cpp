// SPDX-License-Identifier: Apache-2.0
#include "io/stored_weights.h"

#include <span>

#include "base/quotes.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "io/zip_archive.h"

namespace hydramix {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) {
  for (const char* name : {"model.safetensors", "pytorch_model.bin"})
    if (std::filesystem::exists(folder / name)) return folder / name;
  for (const char* name : {"model.safetensors.index.json", "pytorch_model.bin.index.json"})
    HYDRAMIX_CHECK(!std::filesystem::exists(folder / name), folder.string(),
                   ": its weights are split over several files. Name one of them, or save the "
                   "model as a single file.");
  throw Error(concat(folder.string(),
                     ": is a folder without model.safetensors or pytorch_model.bin. Name the file "
                     "with the weights."));
}

std::string first_bytes(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? read_start(path, 9) : std::string();
}

}  // namespace

StoredWeights open_weights(const std::filesystem::path& path, torch_archive::Selection selection) {
  const auto file = std::filesystem::is_directory(path) ? file_in(path) : path;
  const std::string start = first_bytes(file);
  // After the length of its header a safetensors file has a brace, where a zip archive has a zero.
  const bool brace = start.size() == 9 && start[8] == '{';
  const bool pickled = start.starts_with('\x80');
  const bool zip = is_zip(std::as_bytes(std::span<const char>(start)));
  if (!brace && (zip || pickled)) {
    const auto archive = torch_archive::File::open(file, selection);
    return {file, archive.tensors(), archive.metadata(), archive.notes(), archive.storage()};
  }
  // For a missing file, or one meant to be safetensors, the reader has the better error message.
  HYDRAMIX_CHECK(brace || start.empty() || file.extension() == ".safetensors", file.string(),
                 ": is neither a safetensors file nor a checkpoint of PyTorch; it begins with ",
                 in_quotes(start), ". Name a file that one of them wrote.");
  const auto tensors = safetensors::File::open(file);
  return {file, tensors.tensors(), tensors.metadata(), {}, tensors.storage()};
}

}  // namespace hydramix
