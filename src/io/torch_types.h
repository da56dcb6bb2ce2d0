// SPDX-License-Identifier: Apache-2.0
// PyTorch's names of the element types in pickles.
#pragma once

#include <string_view>

#include "hydramix/safetensors.h"

namespace hydramix::torch_archive {

struct TypeNames {
  safetensors::DType dtype;
  std::string_view name;     // torch.float32
  std::string_view storage;  // torch.FloatStorage; empty for the newer types, which have none
};

inline constexpr TypeNames kTypeNames[] = {
    {safetensors::DType::kBool, "bool", "BoolStorage"},
    {safetensors::DType::kU8, "uint8", "ByteStorage"},
    {safetensors::DType::kI8, "int8", "CharStorage"},
    {safetensors::DType::kU16, "uint16", ""},
    {safetensors::DType::kI16, "int16", "ShortStorage"},
    {safetensors::DType::kU32, "uint32", ""},
    {safetensors::DType::kI32, "int32", "IntStorage"},
    {safetensors::DType::kU64, "uint64", ""},
    {safetensors::DType::kI64, "int64", "LongStorage"},
    {safetensors::DType::kF8E4M3, "float8_e4m3fn", ""},
    {safetensors::DType::kF8E5M2, "float8_e5m2", ""},
    {safetensors::DType::kF16, "float16", "HalfStorage"},
    {safetensors::DType::kBF16, "bfloat16", "BFloat16Storage"},
    {safetensors::DType::kF32, "float32", "FloatStorage"},
    {safetensors::DType::kF64, "float64", "DoubleStorage"}};

inline constexpr std::string_view kUntypedStorage = "UntypedStorage";
// The entry in which write() stores the metadata of a safetensors file; PyTorch ignores it.
inline constexpr std::string_view kMetadataEntry = "extra/safetensors_metadata.json";

}  // namespace hydramix::torch_archive
