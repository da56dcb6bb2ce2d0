// SPDX-License-Identifier: Apache-2.0
// hydramix bench at tiny sizes: every suite reports its measurements.
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "support/command.h"

namespace hydramix {
namespace {

using test::contains;
using test::run;

const std::string kTiny =
    " --d-model 32 --headdim 16 --d-state 8 --layers 2 --packed 3 --threads 1"
    " --rounds 1 --min-seconds 0 --check-length 19 ";

// The measurements of a run that must succeed.
std::vector<nlohmann::json> measured(const std::string& arguments,
                                     const std::string& lengths = "16,32") {
  test::TemporaryFolder folder;
  const auto file = folder / "bench.jsonl";
  const auto r =
      run("bench" + kTiny + arguments + " --lengths " + lengths + " --json " + file.string());
  EXPECT_EQ(r.code, 0) << r.err;
  std::vector<nlohmann::json> all;
  if (r.code != 0) return all;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  // Every measurement has a row of the table.
  for (const auto& m : all) EXPECT_TRUE(contains(r.out, m["name"].get<std::string>()));
  return all;
}

// The measurements of one suite, from a single run of all.
std::vector<nlohmann::json> measured_by(const std::string& suite) {
  static const auto all = measured("");
  std::vector<nlohmann::json> of_suite;
  for (const auto& m : all)
    if (m["suite"] == suite) of_suite.push_back(m);
  return of_suite;
}

void expect_sane(const std::vector<nlohmann::json>& all, const std::string& suite) {
  for (const auto& m : all) {
    EXPECT_EQ(m["suite"], suite);
    EXPECT_TRUE(m["pass"] == "forward" || m["pass"] == "forward_backward") << m;
    EXPECT_EQ(m["threads"], 1);
    for (const std::string name : {"ms", "tokens_per_s", "gemm_ms", "ratio", "gb_per_s",
                                   "bandwidth_share", "batch", "length", "rounds"}) {
      ASSERT_TRUE(m.contains(name)) << name << " is absent in " << m;
      EXPECT_GT(m[name].get<double>(), 0) << name << " in " << m;
      EXPECT_TRUE(std::isfinite(m[name].get<double>())) << name << " in " << m;
    }
    const double ms = m["ms"], tokens = m["batch"].get<double>() * m["length"].get<double>();
    EXPECT_NEAR(m["ratio"].get<double>(), ms / m["gemm_ms"].get<double>(), 1e-9 * ms);
    EXPECT_NEAR(m["tokens_per_s"].get<double>() * ms, 1e3 * tokens, 1e-6 * tokens);
    EXPECT_LT(m["error"].get<double>(), 1e-4);
  }
}

TEST(Bench, BlocksInBothPassesAtEveryLengthAndPacked) {
  const auto all = measured_by("block");
  expect_sane(all, "block");
  ASSERT_EQ(all.size(), 6u);  // 16, 32 and 3 x 16 packed, two passes
  EXPECT_EQ(all[4]["packed"], true);
  EXPECT_EQ(all[4]["batch"], 3);
  EXPECT_EQ(all[4]["length"], 16);
  EXPECT_GT(all[0]["gflops"].get<double>(), 0);
}

TEST(Bench, ScansWithBackwardAlone) {
  const auto all = measured_by("scan");
  expect_sane(all, "scan");
  ASSERT_EQ(all.size(), 12u);
  for (const auto& m : all) {
    EXPECT_EQ(m.contains("backward_ms"), m["pass"] == "forward_backward");
    if (m.contains("backward_ms")) {
      EXPECT_GT(m["backward_ratio"].get<double>(), 0);
    }
  }
}

TEST(Bench, ProductsAndTheirShareOfTheFmaPeak) {
  const auto all = measured_by("product");
  expect_sane(all, "product");
  ASSERT_EQ(all.size(), 8u);  // two projections, 16 and 32 rows, two passes
  for (const auto& m : all)
    for (const std::string name : {"gflops", "gemm_gflops"}) {
      const std::string share = name == "gflops" ? "fma_peak_share" : "gemm_fma_peak_share";
      const auto number = [&](const std::string& key) { return m[key].get<double>(); };
      EXPECT_GT(number("fma_peak_gflops"), 0) << m;
      EXPECT_DOUBLE_EQ(number(share), number(name) / number("fma_peak_gflops")) << m;
    }
}

TEST(Bench, ConvolutionAndNorm) {
  const auto all = measured_by("conv");
  expect_sane(all, "conv");
  EXPECT_EQ(all.size(), 8u);
}

TEST(Bench, TheMixersAndThePassThatAreNamed) {
  const auto all = measured("--suite mixers --mixers dense,toeplitz_dd --pass forward");
  expect_sane(all, "mixers");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["name"], "dense");
  EXPECT_EQ(all[3]["name"], "toeplitz_dd");
  for (const auto& m : all) EXPECT_EQ(m["pass"], "forward");
}

TEST(Bench, EveryRegisteredMixer) {
  const auto all = measured_by("mixers");
  expect_sane(all, "mixers");
  EXPECT_GE(all.size(), 4 * 20u);  // two lengths, two passes
}

TEST(Bench, TheModelWithItsShareOfItsMatrixProducts) {
  const auto all = measured_by("model");
  expect_sane(all, "model");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NEAR(all[0]["gemm_share"].get<double>() * all[0]["ratio"].get<double>(), 1, 1e-9);
  EXPECT_GT(all[0]["parameters"].get<double>(), 30522 * 32);
}

TEST(Bench, LongSequencesByTimeAndMemoryPerToken) {
  const auto all = measured("--suite long", "64,4096");
  expect_sane(all, "long");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0]["time_per_token_ratio"], 1);
  EXPECT_GT(all[1]["time_per_token_ratio"].get<double>(), 0);
  EXPECT_GT(all[1]["peak_mib"].get<double>(), 1);  // 4096 tokens of 64 channels are 1 MiB already
}

TEST(Bench, ScalingPrintsSlopesAndDrawsThem) {
  test::TemporaryFolder folder;
  const auto file = folder / "s.svg";
  const auto r = run("bench" + kTiny +
                     "--lengths 16,32 --suite mixers --scaling --mixers hydra,attention_dd --svg " +
                     file.string());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "slope of log time over log length")) << r.out;
  EXPECT_TRUE(contains(r.out, "wrote " + file.string())) << r.out;
  EXPECT_TRUE(contains(read_file(file), "attention_dd"));
}

// The cost in table 1 of the paper, beside that of mix(): Butterfly stands for Monarch too, and
// hyena is not in the table.
TEST(Bench, ScalingNamesTheCostOfThePapersTable) {
  test::TemporaryFolder folder;
  const std::string mixers = "butterfly,monarch,s4d,attention_dd,fnet,hydra,linear_attention,hyena";
  const auto r = run("bench" + kTiny + "--lengths 16 --suite mixers --scaling --mixers " + mixers +
                     " --max-seconds 0 --svg " + (folder / "s.svg").string());
  ASSERT_EQ(r.code, 0) << r.err;
  for (const auto& [name, costs] :
       std::map<std::string, std::string>{{"butterfly", "O\\(L log L\\) +O\\(L log L\\)"},
                                          {"monarch", "O\\(L log L\\) +O\\(L\\^1\\.5\\)"},
                                          {"s4d", "O\\(L log L\\) +O\\(L log L\\)"},
                                          {"attention_dd", "O\\(L\\^2\\) +O\\(L\\^2\\)"},
                                          {"fnet", "O\\(L log\\^2 L\\) +O\\(L log L\\)"},
                                          {"hydra", "O\\(L\\) +O\\(L\\)"},
                                          {"linear_attention", "O\\(L\\) +O\\(L\\)"},
                                          {"hyena", "- +O\\(L log L\\)"}})
    EXPECT_TRUE(std::regex_search(r.out, std::regex("\n *" + name + " +" + costs))) << r.out;
}

TEST(Bench, ScalingSkipsLengthsThatWouldTakeTooLong) {
  test::TemporaryFolder folder;
  const auto r =
      run("bench" + kTiny +
          "--lengths 16,32 --suite mixers --scaling --mixers dense --max-seconds 0 --svg " +
          (folder / "s.svg").string());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "dense: skipped from 32: would take about")) << r.out;
}

TEST(Bench, AResultThatIsOffIsNotTimed) {
  test::TemporaryFolder folder;
  const auto r = run("bench" + kTiny + "--lengths 16 --suite scan --tolerance 0 --json " +
                     (folder / "b.jsonl").string());
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "is off its float64 oracle by")) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "half a file was left";
}

TEST(Bench, UsageErrorsExitWithTwo) {
  for (const std::string arguments :
       {"--suite blocks", "--suite block --scaling", "--scaling", "--suite mixers --svg s.svg",
        "--lengths 0", "--threads 0", "--mixers hydar", "--pass backward", "--headdim 100",
        "--rounds 0", "--suite mixers --scaling --threads 1,2"}) {
    const auto r = run("bench " + arguments);
    EXPECT_EQ(r.code, 2) << arguments << ": " << r.err;
    EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
    EXPECT_EQ(r.out, "") << arguments;
  }
  EXPECT_EQ(run("bench" + kTiny + "--suite conv --json /no/such/folder/b.jsonl").code, 1);
}

TEST(Bench, ImagesPerSecond) {
  const auto all = measured("--suite images");
  expect_sane(all, "images");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["name"], "decode");
  for (const auto& m : all)
    EXPECT_NEAR(m["images_per_s"].get<double>() * m["ms"].get<double>(),
                1e3 * m["batch"].get<double>(), 1e-6);
}

}  // namespace
}  // namespace hydramix
