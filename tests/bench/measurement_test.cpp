// SPDX-License-Identifier: Apache-2.0
// One measurement as JSON and as a row; the slope of exact power laws.
#include "bench/measurement.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "bench/slope.h"

namespace hydramix::bench {
namespace {

Measurement example() {
  Measurement m;
  m.subject = {.suite = "block",
               .name = "hydra",
               .pass = "forward_backward",
               .batch = 8,
               .length = 500,
               .packed = true,
               .threads = 2,
               .d_model = 768};
  m.work = {.flops = 3e9, .bytes = 2e8};
  m.ms = 20;
  m.gemm_ms = 16;
  m.rounds = 5;
  m.error = 1e-6;
  m.gemm_flops = 2.4e9;
  m.peak = {.products = {.fma_peak = 200}, .gigabytes_per_s = 40};
  m.extra = {{"backward_ms", 7.5}};
  return m;
}

TEST(Measurement, IsOneJsonLineWithEverythingDerived) {
  const std::string line = json_line(example());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["suite"], "block");
  EXPECT_EQ(json["name"], "hydra");
  EXPECT_EQ(json["pass"], "forward_backward");
  EXPECT_EQ(json["batch"], 8);
  EXPECT_EQ(json["length"], 500);
  EXPECT_EQ(json["packed"], true);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_DOUBLE_EQ(json["ms"], 20);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 200000);  // 4000 tokens in 20 ms
  EXPECT_DOUBLE_EQ(json["gemm_ms"], 16);
  EXPECT_DOUBLE_EQ(json["ratio"], 1.25);
  EXPECT_DOUBLE_EQ(json["gflops"], 150);  // 3e9 in 20 ms
  EXPECT_DOUBLE_EQ(json["fma_peak_share"], 0.75);
  EXPECT_DOUBLE_EQ(json["gemm_gflops"], 150);  // 2.4e9 in 16 ms
  EXPECT_DOUBLE_EQ(json["gemm_fma_peak_share"], 0.75);
  EXPECT_DOUBLE_EQ(json["gb_per_s"], 10);
  EXPECT_DOUBLE_EQ(json["bandwidth_share"], 0.25);
  EXPECT_DOUBLE_EQ(json["backward_ms"], 7.5);
}

TEST(Measurement, OperationsThatWereNotCountedAreAbsent) {
  Measurement m = example();
  m.work.flops = 0;
  const auto json = nlohmann::json::parse(json_line(m));
  EXPECT_FALSE(json.contains("gflops"));
  EXPECT_FALSE(json.contains("fma_peak_share"));
  EXPECT_TRUE(json.contains("gb_per_s"));
}

TEST(Measurement, RowsStandUnderTheirHeader) {
  const std::string header = table_header(), row = table_row(example());
  EXPECT_EQ(row.find("fwd+bwd"), header.find("pass"));
  EXPECT_EQ(row.find("1.25") + 4, header.find("ratio") + 5);  // aligned at the right
  EXPECT_NE(row.find("8 x 500p"), std::string::npos);
  EXPECT_NE(row.find("backward_ms 7.5"), std::string::npos);
}

TEST(Slope, IsTheExponentOfAPowerLaw) {
  for (const double p : {0.0, 1.0, 1.5, 2.0}) {
    Points points;
    for (double L = 1024; L <= 65536; L *= 2) points.emplace_back(L, 3e-4 * std::pow(L, p));
    EXPECT_NEAR(*log_log_slope(points), p, 1e-12);
  }
}

TEST(Slope, IsTheLeastSquaresFitOfPointsOffTheLine) {
  // log2 times 0, 2, 1 over log2 lengths 0, 1, 2: slope 1/2.
  EXPECT_NEAR(*log_log_slope({{1, 1}, {2, 4}, {4, 2}}), 0.5, 1e-12);
}

TEST(Slope, NeedsTwoLengths) {
  EXPECT_FALSE(log_log_slope({}).has_value());
  EXPECT_FALSE(log_log_slope({{512, 1}}).has_value());
  EXPECT_FALSE(log_log_slope({{512, 1}, {512, 2}}).has_value());
}

}  // namespace
}  // namespace hydramix::bench
