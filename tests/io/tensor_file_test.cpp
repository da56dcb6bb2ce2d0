// SPDX-License-Identifier: Apache-2.0
#include "hydramix/tensor_file.h"

#include <fstream>

#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

TEST(TensorFile, RoundTripIsBitExactForEveryDtype) {
  TemporaryFolder folder;
  std::map<std::string, torch::Tensor> tensors;
  for (const auto type :
       {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64,
        torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64})
    tensors[torch::toString(type)] = (torch::randn({3, 5}) * 10).to(type);
  tensors["scalar"] = torch::full({}, 2.5);
  tensors["empty"] = torch::zeros({0, 4});
  tensors["strided"] = torch::randn({4, 6}).t();
  save_tensors(folder / "t.safetensors", tensors, {{"key", "value"}});
  const auto back = load_tensors(folder / "t.safetensors");
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(back.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(back.at(name), tensor)) << name;
  }
  EXPECT_EQ(back.metadata.at("key"), "value");
}

TEST(TensorFile, TensorsOutliveTheFileAndWritingIntoThemLeavesItAlone) {
  TemporaryFolder folder;
  save_tensors(folder / "t.safetensors", {{"a", torch::ones({1000})}});
  auto a = load_tensors(folder / "t.safetensors").at("a");
  a.fill_(7);
  EXPECT_EQ(a.sum().item<double>(), 7000);
  EXPECT_EQ(load_tensors(folder / "t.safetensors").at("a").sum().item<double>(), 1000);
}

TEST(TensorFile, MisalignedTensorsAndOddBoolsAreReadSafely) {
  TemporaryFolder folder;
  // A header of odd length puts the float at an address that is no multiple of 4.
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"BOOL","shape":[2],"data_offsets":[4,6]}} )";
  ASSERT_NE((8 + header.size()) % 4, 0u);
  std::ofstream out(folder / "m.safetensors", std::ios::binary);
  const uint64_t length = header.size();
  const float value = 1.25f;
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header;
  out.write(reinterpret_cast<const char*>(&value), 4);
  out.write("\x00\x05", 2);
  out.close();
  const auto file = load_tensors(folder / "m.safetensors");
  EXPECT_EQ(file.at("a").item<float>(), 1.25f);
  EXPECT_TRUE(torch::equal(file.at("b"), torch::tensor({false, true})));
}

TEST(TensorFile, NamesMissingTensorsAndUnsupportedTypes) {
  TemporaryFolder folder;
  save_tensors(folder / "t.safetensors", {{"in_proj.weight", torch::ones({1})}});
  EXPECT_THROW_WITH(load_tensors(folder / "t.safetensors").at("in_proj.weigth"), Error,
                    "Did you mean 'in_proj.weight'?");
  EXPECT_THROW_WITH(
      save_tensors(folder / "u.safetensors", {{"c", torch::zeros({1}, torch::kComplexFloat)}}),
      Error, "which .safetensors cannot hold");
  EXPECT_THROW_WITH(save_tensors(folder / "u.safetensors", {{"c", torch::Tensor()}}), Error,
                    "is undefined");
  const std::vector<std::byte> data(2);
  safetensors::write(folder / "v.safetensors", {{"q", safetensors::DType::kU16, {1}, data}});
  EXPECT_THROW_WITH(load_tensors(folder / "v.safetensors"), Error,
                    "tensor 'q' is U16, which LibTorch cannot hold");
}

}  // namespace
}  // namespace hydramix
