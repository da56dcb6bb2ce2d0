// SPDX-License-Identifier: Apache-2.0
#include "hydramix/tensor_file.h"

#include "base/spelling.h"
#include "hydramix/error.h"
#include "io/stored_weights.h"
#include "io/tensor_views.h"
#include "io/torch_archive.h"

namespace hydramix {
namespace {

std::vector<safetensors::TensorView> to_views(const std::filesystem::path& path,
                                              const std::map<std::string, torch::Tensor>& tensors,
                                              std::vector<torch::Tensor>& keep) {
  std::vector<safetensors::TensorView> views;
  for (const auto& [name, tensor] : tensors) views.push_back(to_view(path, name, tensor, keep));
  return views;
}

}  // namespace

const torch::Tensor& TensorFile::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, value] : tensors) known.push_back(key);
  throw Error(concat(path.string(), ": has no tensor '", name, "'.", did_you_mean(name, known)));
}

TensorFile load_tensors(const std::filesystem::path& path) {
  const auto file = safetensors::File::open(path);
  TensorFile result{path, {}, file.metadata()};
  result.has_checksums = file.has_checksums();
  for (const auto& view : file.tensors())
    result.tensors.emplace(view.name, to_tensor(path, view, file.storage()));
  return result;
}

TensorFile load_checkpoint(const std::filesystem::path& path) {
  const auto checkpoint = open_weights(path);
  TensorFile result{checkpoint.path, {}, checkpoint.metadata, checkpoint.notes};
  result.has_checksums = checkpoint.has_checksums;
  for (const auto& view : checkpoint.tensors)
    result.tensors.emplace(view.name, to_tensor(checkpoint.path, view, checkpoint.storage));
  return result;
}

void save_tensors(const std::filesystem::path& path,
                  const std::map<std::string, torch::Tensor>& tensors,
                  const safetensors::Metadata& metadata) {
  std::vector<torch::Tensor> keep;  // contiguous CPU copies live until the file is written
  safetensors::write(path, to_views(path, tensors, keep), metadata);
}

void save_torch_archive(const std::filesystem::path& path,
                        const std::map<std::string, torch::Tensor>& tensors,
                        const safetensors::Metadata& metadata) {
  std::vector<torch::Tensor> keep;
  torch_archive::write(path, to_views(path, tensors, keep), metadata);
}

}  // namespace hydramix
