// SPDX-License-Identifier: Apache-2.0
// Exchange of checkpoints with LibTorch: each side reads what the other writes.
#include <torch/nn/modules/container/sequential.h>
#include <torch/serialize.h>

#include <fstream>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

std::map<std::string, torch::Tensor> some_tensors() {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto type :
       {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64,
        torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64})
    tensors[torch::toString(type)] = (torch::randn({3, 5}) * 10).to(type);
  tensors["scalar"] = torch::full({}, 2.5);
  tensors["empty"] = torch::zeros({0, 4});
  tensors["strided"] = torch::randn({4, 6}).t();
  return tensors;
}

void expect_equal(const torch::Tensor& got, const torch::Tensor& expected,
                  const std::string& name) {
  EXPECT_EQ(got.scalar_type(), expected.scalar_type()) << name;
  EXPECT_TRUE(torch::equal(got, expected)) << name;
}

TEST(LoadCheckpoint, LibTorchReadsWhatWeWrite) {
  TemporaryFolder folder;
  const auto tensors = some_tensors();
  save_torch_archive(folder / "w.pt", tensors);
  const auto bytes = read_file(folder / "w.pt");
  const auto value = torch::pickle_load({bytes.begin(), bytes.end()});
  ASSERT_TRUE(value.isGenericDict());
  const auto dict = value.toGenericDict();
  ASSERT_EQ(dict.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_equal(dict.at(name).toTensor(), tensor, name);
}

TEST(LoadCheckpoint, ReadsWhatLibTorchPickles) {
  TemporaryFolder folder;
  const auto tensors = some_tensors();
  c10::Dict<std::string, torch::Tensor> dict;
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  const auto bytes = torch::pickle_save(dict);
  write_file(folder / "w.bin", {bytes.data(), bytes.size()});
  const auto file = load_checkpoint(folder / "w.bin");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_equal(file.at(name), tensor, name);
}

TEST(LoadCheckpoint, ReadsTheModulesThatLibTorchSaves) {
  TemporaryFolder folder;
  torch::nn::Sequential model(torch::nn::Linear(3, 4),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
  torch::save(model, (folder / "m.pt").string());
  const auto file = load_checkpoint(folder / "m.pt");
  for (const auto& item : model->named_parameters())
    expect_equal(file.at(item.key()), item.value(), item.key());
  EXPECT_EQ(file.tensors.size(), model->parameters().size());

  const std::vector<torch::Tensor> list = {torch::randn({2}),
                                           torch::randn({3}).to(torch::kBFloat16)};
  torch::save(list, (folder / "l.pt").string());
  const auto back = load_checkpoint(folder / "l.pt");
  expect_equal(back.at("0"), list[0], "0");
  expect_equal(back.at("1"), list[1], "1");
}

TEST(LoadCheckpoint, TensorsOutliveTheFileAndWritingIntoThemLeavesItAlone) {
  TemporaryFolder folder;
  save_torch_archive(folder / "w.pt", {{"a", torch::ones({1000})}});
  auto a = load_checkpoint(folder / "w.pt").at("a");
  a.fill_(7);
  EXPECT_EQ(a.sum().item<double>(), 7000);
  EXPECT_EQ(load_checkpoint(folder / "w.pt").at("a").sum().item<double>(), 1000);
}

TEST(LoadCheckpoint, ReadsSafetensorsAndNotesWhatItDid) {
  TemporaryFolder folder;
  save_tensors(folder / "model.safetensors", {{"module.a", torch::ones({2})}}, {{"k", "v"}});
  const auto file = load_checkpoint(folder.path());
  EXPECT_TRUE(file.has("module.a"));
  EXPECT_EQ(file.metadata.at("k"), "v");
  save_torch_archive(folder / "w.pt", file.tensors);
  const auto stripped = load_checkpoint(folder / "w.pt");
  EXPECT_TRUE(stripped.has("a"));
  ASSERT_EQ(stripped.notes.size(), 1u);
  EXPECT_EQ(stripped.notes[0], "removed \"module.\" from the names");
}

}  // namespace
}  // namespace hydramix
