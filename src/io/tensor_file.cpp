// SPDX-License-Identifier: Apache-2.0
#include "hydramix/tensor_file.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using safetensors::DType;

constexpr std::array<std::pair<DType, torch::ScalarType>, 10> kTypes{
    {{DType::kBool, torch::kBool},
     {DType::kU8, torch::kUInt8},
     {DType::kI8, torch::kInt8},
     {DType::kI16, torch::kInt16},
     {DType::kI32, torch::kInt32},
     {DType::kI64, torch::kInt64},
     {DType::kF16, torch::kFloat16},
     {DType::kBF16, torch::kBFloat16},
     {DType::kF32, torch::kFloat32},
     {DType::kF64, torch::kFloat64}}};

torch::ScalarType to_torch(const std::filesystem::path& path, const safetensors::TensorView& view) {
  for (const auto& [dtype, scalar] : kTypes)
    if (dtype == view.dtype) return scalar;
  throw Error(
      concat(path.string(), ": tensor '", view.name, "' is ", dtype_name(view.dtype),
             ", which LibTorch cannot hold. Convert the file to F32, BF16 or an integer type."));
}

DType from_torch(const std::string& name, const torch::Tensor& t) {
  for (const auto& [dtype, scalar] : kTypes)
    if (scalar == t.scalar_type()) return dtype;
  throw Error(
      concat("tensor '", name, "' has dtype ", t.dtype(), ", which .safetensors cannot hold."));
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
  for (const auto& view : file.tensors()) {
    const auto type = to_torch(path, view);
    auto* data = const_cast<std::byte*>(view.data.data());
    torch::Tensor t;
    if (view.data.empty()) {
      t = torch::empty(view.shape, type);
    } else if (type == torch::kBool) {  // a file may hold any byte, a C++ bool only 0 and 1
      t = torch::from_blob(data, view.shape, torch::kUInt8) != 0;
    } else if (reinterpret_cast<std::uintptr_t>(data) % safetensors::dtype_size(view.dtype) == 0) {
      t = torch::from_blob(
          data, view.shape, [keep = file.storage()](void*) {}, type);
    } else {  // the format promises no alignment, LibTorch needs it
      t = torch::empty(view.shape, type);
      std::memcpy(t.data_ptr(), data, view.data.size());
    }
    result.tensors.emplace(view.name, t);
  }
  return result;
}

void save_tensors(const std::filesystem::path& path,
                  const std::map<std::string, torch::Tensor>& tensors,
                  const safetensors::Metadata& metadata) {
  std::vector<torch::Tensor> keep;  // contiguous CPU copies live until the file is written
  std::vector<safetensors::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    HYDRAMIX_CHECK(tensor.defined(), path.string(), ": tensor '", name,
                   "' is undefined and cannot be saved.");
    HYDRAMIX_CHECK(tensor.layout() == torch::kStrided, path.string(), ": tensor '", name,
                   "' is sparse; make it dense with to_dense() first.");
    const auto& t = keep.emplace_back(tensor.detach().to(torch::kCPU).contiguous());
    views.push_back(
        {name,
         from_torch(name, t),
         t.sizes().vec(),
         {static_cast<const std::byte*>(t.data_ptr()), static_cast<std::size_t>(t.nbytes())}});
  }
  safetensors::write(path, views, metadata);
}

}  // namespace hydramix
