// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <sstream>

#include "hydramix/block.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::random_case;

TEST(Registry, HoldsEveryFamilyOfThePaper) {
  const auto names = mixer_names();
  for (const std::string name : {"dense",
                                 "toeplitz_di",
                                 "toeplitz_dd",
                                 "vandermonde_dft",
                                 "vandermonde_di",
                                 "vandermonde_dd",
                                 "cauchy_di",
                                 "cauchy_dd",
                                 "low_rank_di",
                                 "low_rank_dd",
                                 "attention_di",
                                 "attention_dd",
                                 "attention_causal",
                                 "linformer",
                                 "mlp_mixer_nonlinear",
                                 "quasiseparable_di",
                                 "quasiseparable_dd",
                                 "hydra",
                                 "semiseparable",
                                 "linear_attention",
                                 "linear_attention_unnormalized",
                                 "fnet",
                                 "butterfly",
                                 "kaleidoscope",
                                 "monarch",
                                 "monarch_conv",
                                 "mlp_mixer",
                                 "add",
                                 "mult",
                                 "concat",
                                 "attention",
                                 "bidirectional",
                                 "ckconv",
                                 "gla",
                                 "gss",
                                 "h3",
                                 "hyena",
                                 "hyena_bidirectional",
                                 "lru",
                                 "m2_conv",
                                 "retnet",
                                 "s4",
                                 "s4_bidirectional",
                                 "s4d",
                                 "s4d_bidirectional",
                                 "s4nd",
                                 "s6",
                                 "tnn",
                                 "tnn_bidirectional",
                                 "transnormer"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(Registry, EveryMixerIsDescribed) {
  for (const auto& name : mixer_names()) {
    const auto& info = mixer_info(name);
    for (const auto& text : {info.matrix_class, info.formula, info.cost, info.source})
      EXPECT_FALSE(text.empty()) << name;
    EXPECT_TRUE(info.cost.starts_with("O(L")) << name;
  }
}

struct TableRow {
  std::string structure;
  bool tick;
  std::vector<std::string> mixers;
};

// Table 1 of the paper: the tick of each row, and the mixers that stand for its methods.
std::vector<TableRow> table_1() {
  return {{"Dense", false, {"dense", "mlp_mixer"}},
          {"Softmax attention", true, {"attention", "attention_causal", "attention_dd"}},
          {"Low-rank",
           true,
           {"low_rank_dd", "linear_attention", "linear_attention_unnormalized", "linformer"}},
          {"Butterfly", false, {"butterfly", "kaleidoscope", "monarch", "monarch_conv", "m2_conv"}},
          {"Toeplitz",
           false,
           {"s4", "s4_bidirectional", "s4d", "s4d_bidirectional", "h3", "tnn", "tnn_bidirectional",
            "ckconv"}},
          {"Discrete Fourier Transform", false, {"fnet"}},
          {"Vandermonde", true, {"vandermonde_dd"}},
          {"Cauchy", true, {"cauchy_dd"}},
          {"Semiseparable", true, {"s6", "semiseparable"}},
          {"Quasiseparable", true, {"hydra", "quasiseparable_dd"}}};
}

TEST(Registry, TicksAreThoseOfThePapersTable) {
  std::map<std::string, bool> expected, registered;
  for (const auto& row : table_1())
    for (const auto& name : row.mixers) expected[name] = row.tick;
  for (const auto& name : mixer_names())
    if (const auto tick = mixer_info(name).paper_aligned) registered[name] = *tick;
  EXPECT_EQ(registered, expected);
}

BlockOptions published_block(const std::string& name) {
  BlockOptions options;
  options.mixer = name;
  std::istringstream words(mixer_info(name).published);
  for (std::string assignment; words >> assignment;) set(options, assignment);
  return options;
}

TEST(Registry, EveryMixerOfAPublishedSystemSaysWithWhichOptions) {
  std::vector<std::string> names;
  for (const auto& name : mixer_names())
    if (!mixer_info(name).published.empty()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"attention",
                                             "attention_causal",
                                             "ckconv",
                                             "fnet",
                                             "gla",
                                             "gss",
                                             "h3",
                                             "hydra",
                                             "hyena",
                                             "hyena_bidirectional",
                                             "linear_attention",
                                             "linformer",
                                             "lru",
                                             "m2_conv",
                                             "mlp_mixer_nonlinear",
                                             "retnet",
                                             "s4",
                                             "s4_bidirectional",
                                             "s4d",
                                             "s4d_bidirectional",
                                             "s4nd",
                                             "s6",
                                             "semiseparable",
                                             "tnn",
                                             "tnn_bidirectional",
                                             "transnormer"}));
  // Each channel has its own kernel, step or gate.
  for (const std::string name : {"s4", "s4d", "s4nd", "s6", "gss", "h3", "hyena", "m2_conv"})
    EXPECT_EQ(published_block(name).headdim, 1) << name;
  EXPECT_EQ(published_block("lru").headdim, 2);
  EXPECT_EQ(published_block("lru").style, "plain");
}

TEST(Registry, PublishedOptionsBuildABlock) {
  torch::NoGradGuard no_grad;
  for (const auto& name : mixer_names()) {
    if (mixer_info(name).published.empty()) continue;
    torch::manual_seed(3);
    Block block(published_block(name));
    block->eval();
    const auto y = block->forward(torch::randn({1, 3, 768}));
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{1, 3, 768})) << name;
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>()) << name;
  }
}

// Where our experiment and the paper's table 1 disagree, the registration explains it.
TEST(Registry, EveryDifferenceFromThePaperIsExplained) {
  for (const auto& name : mixer_names()) {
    const auto& info = mixer_info(name);
    const bool differs = info.paper_aligned && *info.paper_aligned != info.sequence_aligned;
    EXPECT_EQ(differs, !info.paper_difference.empty()) << name;
  }
}

// TNN and S4 generate their kernels, and Linformer projects keys and values along the sequence. The
// paper's `di` mixers learn every entry, so their source is the paper itself.
TEST(Registry, DataIndependentVariantsAreCreditedToThePaper) {
  for (const auto* name : {"toeplitz_di", "toeplitz_dd", "low_rank_di", "low_rank_dd"})
    EXPECT_TRUE(mixer_info(name).source.starts_with("Hydra, Hwang et al. 2024")) << name;
}

TEST(Registry, UnknownNamesAreAnsweredWithTheNearestAndAllKnown) {
  EXPECT_THROW_WITH(make_mixer("hydar", {}, {}), UsageError,
                    "unknown mixer 'hydar'. Did you mean 'hydra'?");
  EXPECT_THROW_WITH(mixer_info("xyzzy"), UsageError, "vandermonde_di");
}

TEST(Registry, OptionsAreValidated) {
  EXPECT_THROW_WITH(make_mixer("hydra", {1, 4}, {.d_state = 0}), UsageError, "d_state");
  EXPECT_THROW_WITH(make_mixer("hydra", {3, 4}, {.groups = 2}), UsageError,
                    "groups = 2 does not divide the 3 heads");
  EXPECT_THROW_WITH(make_mixer("hydra", {0, 4}, {}), UsageError, "at least one head");
  EXPECT_THROW_WITH(make_mixer("hydra", {1, 4}, {.dt_min = 0.2}), UsageError,
                    "dt_min = 0.2 is above dt_max = 0.1");
  EXPECT_THROW_WITH(make_mixer("hydra", {1, 4}, {.dt_limit_low = 2, .dt_limit_high = 1}),
                    UsageError, "dt_limit_low");
  EXPECT_THROW_WITH(make_mixer("hydra", {1, 4}, {.dt_limit_high = std::nan("")}), UsageError,
                    "dt_limit_high");
}

TEST(MixerInput, WrongShapesAreNamed) {
  const auto c = random_case("hydra", {.L = 6}, torch::kFloat64, 1);
  EXPECT_THROW_WITH(c.mixer->mix(c.x.flatten(2), c.params), Error,
                    "x must be (B, L, H, P) with H = 4, P = 3; got shape [2, 6, 12]");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params.narrow(2, 1, 5)), Error, "got shape [2, 6, 5]");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params.narrow(1, 1, 5)), Error,
                    "params must be (B, L, 52) with L = 6");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params.narrow(0, 0, 1)), Error,
                    "must agree in batch, dtype and device");
  EXPECT_THROW_WITH(c.mixer->mix({}, c.params), Error, "an undefined tensor");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, {}), Error, "an undefined tensor");
  EXPECT_THROW_WITH(c.mixer->materialize(c.params, 7), Error, "with L = 7");
}

TEST(MixerInput, WrongDtypesAreNamed) {
  const auto c = random_case("hydra", {.L = 6}, torch::kFloat64, 1);
  EXPECT_THROW_WITH(c.mixer->mix(c.x.to(torch::kFloat32), c.params), Error,
                    "must agree in batch, dtype");
  EXPECT_THROW_WITH(c.mixer->mix(c.x.to(torch::kFloat16), c.params.to(torch::kFloat16)), Error,
                    "must be float32, float64 or bfloat16");
  EXPECT_THROW_WITH(c.mixer->mix(c.x.to(torch::kInt64), c.params.to(torch::kInt64)), Error,
                    "got long");
  EXPECT_THROW_WITH(c.mixer->mix(c.x.to(torch::kFloat32), c.params.to(torch::kFloat32)), Error,
                    "the weights are float64 but the input is not");
}

TEST(MixerInput, LayoutsMustFit) {
  const auto c = random_case("hydra", {.L = 6}, torch::kFloat64, 1);
  const auto mask = torch::arange(5).expand({2, 5}) < 3;
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params, Layout::padded(mask)), Error,
                    "the layout describes (B, L) = (2, 5) but the input has (2, 6)");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params, Layout::padded(torch::ones({2, 5}, torch::kBool))),
                    Error, "(2, 5)");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params, Layout::packed(torch::tensor({0, 6}))), Error,
                    "(1, 6)");
}

TEST(MixerInput, NonFiniteWeightsAreRefusedAlsoWhenTheyBecomeSoLater) {
  auto c = random_case("hydra", {.L = 6}, torch::kFloat64, 1);
  EXPECT_NO_THROW(c.mixer->mix(c.x, c.params));
  torch::NoGradGuard no_grad;
  auto A_log = c.mixer->named_parameters()["A_log"];
  A_log[1] = std::nan("");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params), Error,
                    "hydra: weight 'A_log' holds a NaN or an infinity");
  EXPECT_THROW_WITH(c.mixer->mix(c.x, c.params), Error, "weight 'A_log'");
  A_log[1] = 0.5;
  EXPECT_NO_THROW(c.mixer->mix(c.x, c.params));
}

TEST(MixerInput, NonFiniteParametersAreRefusedWhereAMatrixIsBuilt) {
  auto c = random_case("hydra", {.L = 6}, torch::kFloat64, 1);
  auto params = c.params.clone();
  params[0][2][3] = std::nan("");
  EXPECT_THROW_WITH(c.mixer->materialize(params, 6), Error, "params hold a NaN or an infinity");
  torch::NoGradGuard no_grad;
  c.mixer->named_parameters()["A_log"][1] = INFINITY;
  EXPECT_THROW_WITH(c.mixer->materialize(c.params, 6), Error,
                    "weight 'A_log' holds a NaN or an infinity");
}

}  // namespace
}  // namespace hydramix
