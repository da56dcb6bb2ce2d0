// SPDX-License-Identifier: Apache-2.0
// hydramix convert: files and folders of weights into each other, and what it refuses.
#include "base/atomic_file.h"
#include "hydramix/safetensors.h"
#include "io/torch_archive.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

using safetensors::DType;
using test::contains;
using test::run_here;

const std::string kGolden = std::string(HYDRAMIX_SOURCE_DIR) + "/tests/golden/";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

class Convert : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  test::Result convert(const std::string& in, const std::string& out,
                       const std::string& more = "") const {
    return run_here("convert " + in + " " + path(out) + " " + more);
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }

  test::TemporaryFolder folder_;
};

TEST_F(Convert, ThereAndBackIsTheSameFile) {
  const auto golden = kGolden + "bert_hydra_2layer.safetensors";
  ASSERT_EQ(convert(golden, "a.safetensors").code, 0);
  const auto r = convert(path("a.safetensors"), "b.pt");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "wrote " + path("b.pt"))) << r.out;
  ASSERT_EQ(convert(path("b.pt"), "c.safetensors").code, 0);
  EXPECT_TRUE(read("a.safetensors") == read("c.safetensors"));
  const auto first = safetensors::File::open(golden),
             last = safetensors::File::open(path("c.safetensors"));
  ASSERT_EQ(first.tensors().size(), last.tensors().size());
  for (const auto& tensor : first.tensors()) {
    const auto& same = last.at(tensor.name);
    EXPECT_TRUE(
        std::equal(tensor.data.begin(), tensor.data.end(), same.data.begin(), same.data.end()))
        << tensor.name;
  }
}

TEST_F(Convert, ChangesTheTypeOfFloatingPointTensorsAlone) {
  const std::string data("\0\0\x80\x3f\x01\0\0\0", 8);  // 1.0f, 1
  safetensors::write(folder_ / "a.safetensors", {{"f", DType::kF32, {1}, bytes_of(data).first(4)},
                                                 {"i", DType::kI32, {1}, bytes_of(data).last(4)}});
  const auto r = convert(path("a.safetensors"), "b.pt", "--dtype bfloat16 --list");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "f  BF16     [1]\n")) << r.out;
  EXPECT_TRUE(contains(r.out, "i  I32      [1]\n")) << r.out;
  const auto file = torch_archive::File::open(path("b.pt"));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].dtype, DType::kBF16);
  EXPECT_EQ(std::to_integer<int>(file.tensors()[0].data[1]), 0x3f);
  EXPECT_EQ(file.tensors()[1].dtype, DType::kI32);
}

TEST_F(Convert, SaysWhatItTookFromATrainingState) {
  const std::string data(4, 'x');
  torch_archive::write(folder_ / "a.pt", {{"module.w", DType::kF32, {1}, bytes_of(data)}});
  const auto r = run_here("convert --list " + path("a.pt"));
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "w  F32      [1]\n1 tensors, 0.0 MB\n");
  EXPECT_TRUE(contains(r.err, "removed \"module.\" from the names")) << r.err;
  const auto whole = run_here("convert --list --everything " + path("a.pt"));
  EXPECT_TRUE(contains(whole.out, "module.w")) << whole.out;
  EXPECT_EQ(whole.err, "");
}

TEST_F(Convert, TurnsToeplitzWeightsThereAndBack) {
  const std::string data("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12);  // 0, 1, 2
  safetensors::write(folder_ / "a.safetensors",
                     {{"matrix_mixer.conv_params", DType::kF32, {1, 3}, bytes_of(data)}},
                     {{"format", "pt"}});
  ASSERT_EQ(convert(path("a.safetensors"), "b.safetensors", "--reference-toeplitz to").code, 0);
  const auto turned = safetensors::File::open(path("b.safetensors"));
  EXPECT_EQ(std::to_integer<int>(turned.tensors()[0].data[3]), 0x40);  // 2, 0, 1
  ASSERT_EQ(convert(path("b.safetensors"), "c.safetensors", "--reference-toeplitz from").code, 0);
  EXPECT_TRUE(read("a.safetensors") == read("c.safetensors"));
  const auto r = convert(kGolden + "hydra_g1_L1.safetensors", "d.pt", "--reference-toeplitz from");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "has no weights of a data-independent Toeplitz mixer")) << r.err;
}

// The weights of the golden encoder, as a file of its own.
void write_encoder(const std::filesystem::path& path) {
  const auto golden = safetensors::File::open(kGolden + "bert_hydra_2layer.safetensors");
  std::vector<safetensors::TensorView> weights;
  for (auto tensor : golden.tensors())
    if (tensor.name.starts_with("param.")) {
      tensor.name.erase(0, 6);
      weights.push_back(tensor);
    }
  torch_archive::write(path, weights);
}

TEST_F(Convert, MakesAModelFolderWhoseConfigFitsTheWeights) {
  write_encoder(folder_ / "published.pt");
  const auto r = convert(path("published.pt"), "model");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto config = read("model/config.json");
  for (const std::string field : {"\"vocab\": 97", "\"layers\": 2", "\"mixer\": \"hydra\"",
                                  "\"d_model\": 32", "\"headdim\": 8", "\"d_state\": 8"})
    EXPECT_TRUE(contains(config, field)) << field << " in " << config;
  ASSERT_EQ(convert(path("model"), "back.pt").code, 0);
  const auto before = torch_archive::File::open(path("published.pt"));
  const auto after = torch_archive::File::open(path("back.pt"));
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (std::size_t i = 0; i < before.tensors().size(); ++i) {
    const auto &a = before.tensors()[i], &b = after.tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_TRUE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end())) << a.name;
  }
  EXPECT_EQ(convert(path("published.pt"), "model", "--dtype bfloat16").code, 2);
  const auto other = convert(kGolden + "hydra_g1_L1.safetensors", "other");
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.err, "not those of an encoder")) << other.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(Convert, MistakesAreNamedAndLeaveNoFile) {
  const auto golden = kGolden + "hydra_g1_L1.safetensors";
  EXPECT_EQ(run_here("convert " + golden).code, 2);
  const auto r = convert(golden, "out.onnx");
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, "'.onnx', which names no format")) << r.err;
  EXPECT_EQ(convert(golden, "out.onnx", "--to pt").code, 0);
  write_file(folder_ / "old.pt", "\x80\x02}.");
  const auto old = convert(path("old.pt"), "new.safetensors");
  EXPECT_EQ(old.code, 1);
  EXPECT_TRUE(contains(old.err, "old.pt: is a bare pickle")) << old.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.safetensors"));
}

TEST_F(Convert, AModelComesBackFromAnyFileWithConfigAndTokenizer) {
  test::make_language_run(folder_ / "run",
                          "--model.block.mixer vandermonde_dd --model.dropout 0.1");
  write_file(folder_ / "run/model/README.md", "about it");
  for (const std::string file : {"w.pt", "w.safetensors"}) {
    ASSERT_EQ(convert(path("run/model"), file).code, 0);
    const auto back = convert(path(file), "back_" + file.substr(2), "--to folder");
    ASSERT_EQ(back.code, 0) << back.err;
    for (const std::string name : {"config.json", "tokenizer.json", "model.safetensors"})
      EXPECT_EQ(read("back_" + file.substr(2) + "/" + name), read("run/model/" + name)) << name;
  }
  ASSERT_EQ(convert(path("run/model"), "copy").code, 0);
  EXPECT_EQ(read("copy/README.md"), "about it");
  EXPECT_EQ(read("copy/tokenizer.json"), read("run/model/tokenizer.json"));
  // A run is its last checkpoint.
  ASSERT_EQ(convert(path("run"), "from_run").code, 0);
  EXPECT_EQ(read("from_run/model.safetensors"), read("run/model/model.safetensors"));
  EXPECT_EQ(convert(path("run"), "best.pt", "--which best").code, 0);
  EXPECT_EQ(convert(path("run/model"), "x.pt", "--which best").code, 2);
  // The published format has neither: the mixer must be given.
  const auto kept = safetensors::File::open(path("w.safetensors"));
  torch_archive::write(folder_ / "bare.pt", kept.tensors());
  const auto given = convert(path("bare.pt"), "given",
                             "--set model.block.mixer=vandermonde_dd --set model.block.headdim=8 "
                             "--set model.block.mixer_options.d_state=8");
  EXPECT_EQ(given.code, 0) << given.err;
}

TEST_F(Convert, OptionsOfTheModelAreHonouredOrRefused) {
  test::make_language_run(folder_ / "run", "--model.dropout 0.1");
  ASSERT_EQ(convert(path("run/model"), "w.pt").code, 0);
  // 0 is the default, but not what the file has.
  ASSERT_EQ(convert(path("w.pt"), "changed", "--set model.dropout=0").code, 0);
  EXPECT_TRUE(contains(read("changed/config.json"), "\"dropout\": 0.0"));
  EXPECT_TRUE(contains(read("run/model/config.json"), "\"dropout\": 0.1"));
  const auto layers = convert(path("w.pt"), "layers", "--model.layers 3");
  EXPECT_EQ(layers.code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "layers"));
  const auto file = convert(path("w.pt"), "w.safetensors", "--set model.dropout=0.5");
  EXPECT_EQ(file.code, 2);
  EXPECT_TRUE(contains(file.err, "is a file of weights, which has none")) << file.err;
  write_encoder(folder_ / "bare.pt");
  const auto contradicted = convert(path("bare.pt"), "x", "--set model.layers=5");
  EXPECT_EQ(contradicted.code, 2);
  EXPECT_TRUE(contains(contradicted.err, "model.layers was given as 5, but the weights make it 2"))
      << contradicted.err;
}

TEST_F(Convert, AConfigInAFileCannotAskForMoreMemoryThanTheWeights) {
  test::make_language_run(folder_ / "run");
  ASSERT_EQ(convert(path("run/model"), "w.safetensors").code, 0);
  const auto good = safetensors::File::open(path("w.safetensors"));
  auto metadata = good.metadata();
  auto& config = metadata.at("config");
  const std::string from = "\"positions\": 0", to = "\"positions\": 16777216";
  ASSERT_NE(config.find(from), std::string::npos) << config;
  config.replace(config.find(from), from.size(), to);
  safetensors::write(folder_ / "huge.safetensors", good.tensors(), metadata);
  const auto r = convert(path("huge.safetensors"), "huge");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "huge.safetensors: its config describes a module of at least"))
      << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "huge"));
}

TEST_F(Convert, AFolderIsReplacedOnlyWhenAsked) {
  write_encoder(folder_ / "published.pt");
  ASSERT_EQ(convert(path("published.pt"), "model").code, 0);
  const auto before = read("model/model.safetensors");
  const auto again = convert(path("published.pt"), "model");
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(contains(again.err, "--overwrite")) << again.err;
  write_file(folder_ / "model/tokenizer.json", "{}");
  EXPECT_EQ(convert(path("published.pt"), "model", "--overwrite").code, 0);
  EXPECT_EQ(read("model/model.safetensors"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model/tokenizer.json"));
  EXPECT_EQ(run_here("convert " + path("published.pt") + " " + path("published.pt")).code, 2);
  // The weights of the folder itself are an input that would be lost.
  const auto own = convert(path("model/model.safetensors"), "model", "--overwrite");
  EXPECT_EQ(own.code, 2);
  EXPECT_TRUE(contains(own.err, "model.safetensors: is the input")) << own.err;
  EXPECT_EQ(read("model/model.safetensors"), before);
}

}  // namespace
}  // namespace hydramix
