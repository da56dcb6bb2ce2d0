// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_checksums.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/quotes.h"
#include "hydramix/error.h"

namespace hydramix::safetensors {
namespace {

const std::string kSumOfRest = "hydramix.crc32c";
const std::string kSumOfTensor = kSumOfRest + ":";

constexpr std::string_view kChangedAfterWriting =
    " The file was damaged after it was written: copy or export it again. A program that changes "
    "tensors must leave out the metadata whose keys begin with hydramix.crc32c.";

bool is_checksum(const std::string& key) {
  return key == kSumOfRest || key.starts_with(kSumOfTensor);
}

std::uint32_t sum_of_rest(const Metadata& metadata, std::span<const TensorView> tensors) {
  std::vector<const TensorView*> by_name;
  for (const auto& tensor : tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  std::uint32_t sum = 0;
  for (const TensorView* tensor : by_name) {
    std::string line = concat(tensor->name, ' ', dtype_name(tensor->dtype), ' ');
    for (std::size_t i = 0; i < tensor->shape.size(); ++i)
      line += concat(i == 0 ? "" : ",", tensor->shape[i]);
    sum = crc32c(line + "\n", sum);
  }
  for (const auto& [key, value] : metadata)
    if (key != kSumOfRest) sum = crc32c(concat(key, '=', value, '\n'), sum);
  return sum;
}

}  // namespace

void set_checksums(Metadata& metadata, std::span<const TensorView> tensors) {
  std::erase_if(metadata, [](const auto& item) { return is_checksum(item.first); });
  for (const auto& tensor : tensors)
    metadata[kSumOfTensor + tensor.name] = checksum_text(crc32c(tensor.data));
  metadata[kSumOfRest] = checksum_text(sum_of_rest(metadata, tensors));
}

bool take_checksums(Metadata& metadata, std::span<const TensorView> tensors,
                    const std::string& origin) {
  const bool present = std::any_of(metadata.begin(), metadata.end(),
                                   [](const auto& item) { return is_checksum(item.first); });
  if (!present) return false;
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // a fuzzer would not get past checksums
  const auto rest = metadata.find(kSumOfRest);
  HYDRAMIX_CHECK(
      rest != metadata.end() && rest->second == checksum_text(sum_of_rest(metadata, tensors)),
      origin, ": the checksum of the header's names, types, shapes and metadata is ",
      checksum_text(sum_of_rest(metadata, tensors)), ", the file records ",
      rest == metadata.end() ? "none" : in_quotes(rest->second), ".", kChangedAfterWriting);
  for (const auto& tensor : tensors) {
    const auto found = metadata.find(kSumOfTensor + tensor.name);
    const std::string sum = checksum_text(crc32c(tensor.data));
    HYDRAMIX_CHECK(found != metadata.end() && found->second == sum, origin, ": tensor ",
                   in_quotes(tensor.name), ": the checksum of its ", tensor.data.size(),
                   " bytes is ", sum, ", the file records ",
                   found == metadata.end() ? "none" : in_quotes(found->second), ".",
                   kChangedAfterWriting);
  }
#endif
  std::erase_if(metadata, [](const auto& item) { return is_checksum(item.first); });
  return true;
}

}  // namespace hydramix::safetensors
