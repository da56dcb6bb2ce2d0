// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_views.h"

#include <array>
#include <cstring>
#include <utility>

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

torch::Tensor to_tensor(const std::filesystem::path& path, const safetensors::TensorView& view,
                        const std::shared_ptr<const void>& storage) {
  const auto type = to_torch(path, view);
  auto* data = const_cast<std::byte*>(view.data.data());
  if (view.data.empty()) return torch::empty(view.shape, type);
  if (type == torch::kBool)  // a file may hold any byte, a C++ bool only 0 and 1
    return torch::from_blob(data, view.shape, torch::kUInt8) != 0;
  if (reinterpret_cast<std::uintptr_t>(data) % safetensors::dtype_size(view.dtype) == 0)
    return torch::from_blob(
        data, view.shape, [storage](void*) {}, type);
  // The format promises no alignment, LibTorch needs it.
  auto t = torch::empty(view.shape, type);
  std::memcpy(t.data_ptr(), data, view.data.size());
  return t;
}

safetensors::TensorView to_view(const std::filesystem::path& path, const std::string& name,
                                const torch::Tensor& tensor, std::vector<torch::Tensor>& keep) {
  HYDRAMIX_CHECK(tensor.defined(), path.string(), ": tensor '", name,
                 "' is undefined and cannot be saved.");
  HYDRAMIX_CHECK(tensor.layout() == torch::kStrided, path.string(), ": tensor '", name,
                 "' is sparse; make it dense with to_dense() first.");
  const auto& t = keep.emplace_back(tensor.detach().to(torch::kCPU).contiguous());
  return {name,
          from_torch(name, t),
          t.sizes().vec(),
          {static_cast<const std::byte*>(t.data_ptr()), static_cast<std::size_t>(t.nbytes())}};
}

}  // namespace hydramix
