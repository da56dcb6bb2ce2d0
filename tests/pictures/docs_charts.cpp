// SPDX-License-Identifier: Apache-2.0
// Draws the charts of docs from the numbers in docs/data: docs_charts DATA OUT. Called by
// scripts/make_pictures.sh.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "base/read_file.h"
#include "bench/scaling_data.h"
#include "hydramix/error.h"
#include "view/chart.h"
#include "view/dot_plot.h"

namespace hydramix {
namespace {

using nlohmann::json;
using std::filesystem::path;

void draw_scaling(const path& data, const path& out) {
  const auto times = bench::parse_scaling(read_file(data / "scaling.jsonl"), "scaling.jsonl");
  bench::write_scaling_chart(out / "scaling.svg", times.mixers);
}

// Rows have the values of all seeds, or a mean and a standard deviation.
std::vector<DotRow> rows_of(const json& table) {
  std::vector<DotRow> rows;
  for (const auto& entry : table.at("rows")) {
    DotRow row;
    row.name = entry.at("name");
    row.mean = entry.at("mean");
    row.values = entry.value("values", std::vector<double>{});
    const double deviation = entry.value("deviation", 0.0);
    row.low = row.mean - deviation;
    row.high = row.mean + deviation;
    if (!row.values.empty()) {
      double sum = 0;
      for (const double value : row.values) sum += value;
      const double mean = sum / static_cast<double>(row.values.size());
      HYDRAMIX_CHECK(std::abs(mean - row.mean) < 0.0011, row.name, ": the mean of the values is ",
                     mean, ", but the table has ", row.mean, ".");
      const auto [low, high] = std::minmax_element(row.values.begin(), row.values.end());
      row.low = *low;
      row.high = *high;
    }
    row.strong = rows.empty();
    rows.push_back(std::move(row));
  }
  return rows;
}

void draw_results(const path& data, const path& out) {
  const auto results = read_json<json>(data / "results.json", kResultFile);
  write_dot_plot(out / "results.svg", rows_of(results.at("losses")),
                 {.title = "Evaluation loss after 3000 steps, three seeds",
                  .x_label = "loss: each seed, range and mean (lower is better)",
                  .mean_label = "mean",
                  .decimals = 3,
                  .low = 3.7,
                  .high = 3.9});
  write_dot_plot(out / "results_stsb.svg", rows_of(results.at("stsb")),
                 {.title = "STS-B after fine-tuning, three seeds",
                  .x_label = "score: mean and standard deviation (higher is better)",
                  .mean_label = "mean",
                  .decimals = 1,
                  .low = 10,
                  .high = 40});
}

// The lines of bench-serve --json, after one that says how they were measured.
void draw_serving(const path& data, const path& out) {
  std::istringstream lines(read_file(data / "serving.jsonl"));
  std::string text;
  std::getline(lines, text);
  ChartLine requests{.name = "requests per second", .strong = true};
  ChartLine times[]{{.name = "median", .strong = true}, {.name = "p90"}, {.name = "p99"}};
  while (std::getline(lines, text)) {
    const auto line = parse_json(text, "serving.jsonl");
    const double clients = line.at("clients");
    requests.points.emplace_back(clients, line.at("requests_s"));
    times[0].points.emplace_back(clients, line.at("p50_ms"));
    times[1].points.emplace_back(clients, line.at("p90_ms"));
    times[2].points.emplace_back(clients, line.at("p99_ms"));
  }
  write_chart(out / "serving_throughput.svg", {{"", {requests}}},
              {.title = "Answers over the number of clients",
               .x_label = "clients",
               .y_label = "requests per second",
               .log_x = true});
  write_chart(out / "serving_latency.svg", {{"", {std::begin(times), std::end(times)}}},
              {.title = "Time of an answer over the number of clients",
               .x_label = "clients",
               .y_label = "ms",
               .log_x = true,
               .log_y = true});
}

}  // namespace
}  // namespace hydramix

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: docs_charts DATA_FOLDER OUT_FOLDER\n");
    return 2;
  }
  try {
    hydramix::draw_scaling(argv[1], argv[2]);
    hydramix::draw_results(argv[1], argv[2]);
    hydramix::draw_serving(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "docs_charts: %s\n", error.what());
    return 1;
  }
  return 0;
}
