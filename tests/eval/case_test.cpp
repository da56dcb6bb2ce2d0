// SPDX-License-Identifier: Apache-2.0
#include "eval/case.h"

#include <filesystem>

#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(HYDRAMIX_SOURCE_DIR) / "tests/golden";

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

TensorFile golden(const std::string& name) {
  return load_tensors(kGolden / (name + ".safetensors"));
}

class GoldenCase : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenCase, AgreesWithTheReferenceInEveryTensor) {
  const auto file = golden(GetParam());
  // Measured below 2e-14; the reference's own gradients were checked to 6e-7 by differences.
  const auto report = run_case(file, 1e-12);
  EXPECT_GE(report.tensors.size(), report.module == "Mixer" ? 3u : 8u);
  for (const auto& tensor : report.tensors) {
    EXPECT_TRUE(tensor.compared) << tensor.name;
    EXPECT_FALSE(tensor.off) << tensor.name << ": " << tensor.error;
  }
}

TEST_P(GoldenCase, AgreesInFloat32OnEveryDevice) {
  std::vector<torch::Device> devices{torch::kCPU};
  if (torch::cuda::is_available()) devices.emplace_back(torch::kCUDA);
  for (const auto& device : devices) {
    const auto where = torch::TensorOptions(torch::kFloat32).device(device);
    const auto report = run_case(golden(GetParam()), 2e-5, {}, where);
    for (const auto& tensor : report.tensors) {
      EXPECT_FALSE(tensor.off) << tensor.name << " on " << device << ": " << tensor.error;
      EXPECT_EQ(report.computed.at(tensor.name).scalar_type(), torch::kFloat32);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCase, ::testing::ValuesIn(golden_names()),
                         test::parameter_name);

TEST(Golden, AllCasesOfThePublishedHydraAreThere) {
  const auto names = golden_names();
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const std::string& name) {
                            return name.starts_with("hydra_") || name.starts_with("mixer_") ||
                                   name.starts_with("bert_");
                          }),
            23);
}

TEST(Case, NoticesEverySingleChangedTensor) {
  const auto file = golden("hydra_g2_L17");
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "y" || name.starts_with("grad.")) {
      auto changed = file;
      changed.tensors[name] = tensor.clone();
      changed.tensors[name].view(-1)[0] += 1e-6 * tensor.abs().max();
      const auto report = run_case(changed, 1e-9);
      EXPECT_FALSE(report.passed()) << name;
      for (const auto& t : report.tensors) EXPECT_EQ(t.off, t.name == name) << t.name;
    }
  }
}

TEST(Case, NanIsNeverWithinTolerance) {
  auto file = golden("hydra_g1_L2");
  file.tensors["y"] = torch::full_like(file.at("y"), std::nan(""));
  EXPECT_FALSE(run_case(file, 1e9).passed());
}

TEST(Case, ComputesTensorsMissingInTheFile) {
  auto file = golden("hydra_g1_L17");
  for (const auto& name : {"y", "grad.x", "grad.D"}) file.tensors.erase(name);
  const auto report = run_case(file, 1e-9);
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(torch::isfinite(report.computed.at("grad.D")).all().item<bool>());
}

TEST(Case, PoolerWeightsAreOptional) {
  auto file = golden("bert_hydra_2layer");
  file.tensors["param.bert.pooler.dense.weight"] = torch::randn({32, 32}, torch::kFloat64);
  file.tensors["param.bert.pooler.dense.bias"] = torch::randn({32}, torch::kFloat64);
  file.tensors["grad.bert.pooler.dense.bias"] = torch::zeros({32}, torch::kFloat64);
  EXPECT_TRUE(run_case(file, 1e-9).passed());
}

TEST(Case, ReadsPythonsInfinityInDtLimit) {
  auto file = golden("hydra_g1_L17");
  auto& constructor = file.metadata["constructor"];
  constructor.insert(constructor.size() - 1,
                     R"(, "dt_limit": [0.0, Infinity], "activation": "silu", "chunk_size": 8)");
  EXPECT_TRUE(run_case(file, 1e-9).passed());
  constructor.replace(constructor.find("Infinity"), 8, "0.01");
  EXPECT_FALSE(run_case(file, 1e-9).passed());
}

// A case of the published Toeplitz code, made from the corrected one: the same matrix, with weights
// and gradients rotated by one lag.
TEST(Case, PublishedToeplitzWeightsAndGradientsAreRotatedOnRequest) {
  auto file = golden("mixer_toeplitz_di");
  for (const std::string name : {"param.matrix_mixer.conv_params", "grad.matrix_mixer.conv_params"})
    file.tensors[name] = to_reference_toeplitz_weights(file.at(name));
  EXPECT_TRUE(run_case(file, 1e-12, {.reference_toeplitz = true}).passed());
  EXPECT_FALSE(run_case(file, 1e-3).passed());
}

// A case of a mixer alone, made here from its matrix.
TEST(Case, OfAMixerAloneIsChecked) {
  torch::manual_seed(3);
  const auto mixer = make_mixer("toeplitz_dd", {.H = 2, .P = 3}, {.max_length = 9});
  mixer->to(torch::kFloat64);
  const auto x = torch::randn({2, 5, 2, 3}, torch::kFloat64).requires_grad_();
  const auto params = torch::randn({2, 5, 4}, torch::kFloat64).requires_grad_();
  const auto dy = torch::randn_like(x);
  const auto M = mixer->materialize(params, 5);
  const auto y = dense_apply(M, x);
  y.backward(dy);
  TensorFile file;
  file.path = "made_here";
  file.metadata = {{"module", "Mixer"},
                   {"constructor", R"({"mixer": "toeplitz_dd", "max_length": 9})"}};
  file.tensors = {
      {"x", x.detach()},       {"params", params.detach()}, {"dy", dy},
      {"y", y.detach()},       {"grad.x", x.grad()},        {"grad.params", params.grad()},
      {"aux.M", M.detach()[0]}};
  const auto report = run_case(file, 1e-12);
  EXPECT_EQ(report.tensors.size(), 4u);
  EXPECT_TRUE(report.passed());
  auto changed = file;
  changed.tensors["grad.params"] = 2 * params.grad();
  EXPECT_FALSE(run_case(changed, 1e-3).passed());
  changed = file;
  changed.metadata["constructor"] = R"({"mixer": "toeplits_dd"})";
  EXPECT_THROW_WITH(run_case(changed, 1e-9), Error, "Did you mean 'toeplitz_dd'?");
  changed.metadata["constructor"] = R"({"mixer": "toeplitz_dd", "max_lenght": 9})";
  EXPECT_THROW_WITH(run_case(changed, 1e-9), Error, "max_length");
  changed.metadata["constructor"] = R"({"mixer": "toeplitz_dd", "d_state": 60000})";
  EXPECT_THROW_WITH(run_case(changed, 1e-9), Error, "sizes up to 60000");
  changed.metadata["constructor"] = R"({"mixer": "fnet"})";
  EXPECT_THROW_WITH(run_case(changed, 1e-9), Error, "holds 'params'");
}

TEST(Case, LabelsBeyondTheVocabularyAreExplained) {
  auto file = golden("bert_hydra_2layer");
  file.tensors["labels"] = torch::full({2, 12}, 97, torch::kInt64);
  EXPECT_THROW_WITH(run_case(file, 1e-9), Error, "label 97 is beyond the vocabulary of 97");
}

TEST(Case, WrongMixerTypesAreExplained) {
  auto file = golden("mixer_toeplitz_dd");
  const std::string head = R"({"is_data_dependent": true, "d_model": 32, "qk_dim": 4)";
  file.metadata["constructor"] = head + "}";
  EXPECT_THROW_WITH(run_case(file, 1e-9), Error, "lacks matrix_mixer_type");
  file.metadata["constructor"] = head + R"(, "matrix_mixer_type": "toeplits"})";
  EXPECT_THROW_WITH(run_case(file, 1e-9), Error,
                    "unknown matrix_mixer_type \"toeplits\". Did you mean 'toeplitz'?");
  file.metadata["constructor"] = head + R"(, "matrix_mixer_type": "dense"})";
  EXPECT_THROW_WITH(run_case(file, 1e-9), Error, "data-independent only");
  file.metadata["mixer_constructor"] = R"({"is_dtf": false})";
  EXPECT_THROW_WITH(run_case(file, 1e-9), Error, "unknown argument \"is_dtf\"");
}

TEST(Case, FilesThatAreNotCasesAreExplained) {
  const auto file = golden("hydra_g1_L17");
  auto broken = file;
  broken.metadata.erase("module");
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "has no metadata 'module'");
  broken = file;
  broken.metadata["module"] = "Mamba";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error,
                    "unknown module \"Mamba\"; expected Hydra, MatrixMixer");
  broken = file;
  broken.metadata["constructor"] = R"({"d_model": 32, "dstate": 16})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error,
                    "unknown constructor argument \"dstate\". Did you mean 'd_state'?");
  broken.metadata["constructor"] = R"({"d_model": "wide"})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "'d_model' has an unusable value");
  broken.metadata["constructor"] = R"({"d_model": 32, "d_state": 16.9})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "'d_state' has an unusable value: 16.9");
  broken.metadata["constructor"] = R"({"d_model": 32, "headdim": 0})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "headdim");
  broken.metadata["constructor"] =
      R"({"d_model": )" + std::string(1000, '[') + std::string(1000, ']') + "}";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "nested deeper than 64 levels");
  broken.metadata["constructor"] = R"({"d_model": )" + std::string(100000, '1') + "}";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "at most 65536 are read");
  broken.metadata["constructor"] = R"({"d_model": 60000, "headdim": 60000})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "weights, but the file holds");
  broken.metadata["constructor"] = R"({"d_model": 18446744073709551615})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "unusable value");
  broken.metadata["constructor"] = R"({"d_model": 32, "dt_limit": [0, 1, 2]})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "'dt_limit' has an unusable value: array");
  broken.metadata["constructor"] = "{";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "not JSON");
  broken.metadata["constructor"] = R"({"d_model": 32, "headdim": 5})";
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "is not a multiple of headdim = 5");
  broken = file;
  broken.tensors.erase("param.D");
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "missing 'D'");
  broken = file;
  broken.tensors.erase("x");
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "has no tensor 'x'");
  broken = file;
  broken.tensors["dy"] = file.at("dy").narrow(1, 0, 3);
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "'dy' must have the shape of the output");
  broken = file;
  broken.tensors["y"] = file.at("y").narrow(1, 0, 3);
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "'y' has shape [2, 3, 32]");
  broken = file;
  broken.tensors["grad.nothing"] = torch::zeros({1});
  EXPECT_THROW_WITH(run_case(broken, 1e-9), Error, "holds \"grad.nothing\"");
}

}  // namespace
}  // namespace hydramix
