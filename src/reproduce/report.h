// SPDX-License-Identifier: Apache-2.0
// The report of a reproduction: the tables beside the paper's numbers, findings, curves, matrices,
// commands and versions, as HTML, Markdown, CSV and JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reproduce/findings.h"
#include "reproduce/recall_results.h"

namespace hydramix {

struct ReportCell {
  Spread ours;                      // count 0: not measured
  std::optional<double> published;  // empty: the paper has none
};

struct ReportRow {
  TableRow row;
  std::vector<ReportCell> cells;  // one for each column
  RowCommands commands;           // of seed 1; empty for a row from the literature
  bool best(std::size_t column, const std::vector<ReportRow>& rows, bool lower) const;
};

struct ReportTable {
  const PaperTable* table = nullptr;
  int64_t seeds = 0;
  std::vector<TableColumn> columns;
  std::vector<ReportRow> rows;
};

struct Report {
  ReproducePlan plan;
  std::string version;
  AllResults results;
  std::vector<ReportTable> tables;
  std::vector<Finding> findings;
  std::vector<RecallPoint> recall;
};

Report make_report(const ReproducePlan& plan, const std::string& version);

// A number as the tables print it: "71.4M" parameters, "1.84" or, with more digits, "1.843".
std::string number_text(const std::string& column, double value, bool more_digits);
// "1.843 ± 0.004", or without the deviation where there is one seed.
std::string spread_text(const std::string& column, const Spread& spread);
// "+0.031 ± 0.004, 95 % interval 0.021 to 0.041, 3 seeds"
std::string comparison_text(const Comparison& comparison);
// One sentence about models and data of the scale.
std::string scale_text(const ReproducePlan& plan);

std::string report_html(const Report& report);
std::string report_markdown(const Report& report);
std::string report_csv(const Report& report);
nlohmann::ordered_json report_json(const Report& report);

// Writes OUT/report.html, .md, .csv and .json; returns the path of the first.
std::filesystem::path write_reports(const ReproducePlan& plan, const std::string& version);

}  // namespace hydramix
