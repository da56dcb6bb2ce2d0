// SPDX-License-Identifier: Apache-2.0
#include "reproduce/report.h"

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/formatted.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "reproduce/recall_stages.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

const std::string kParameters = "parameters", kLoss = "loss";

// A mean over fewer than the paper's eight tasks has a column of its own, without a published
// number beside it.
std::vector<TableColumn> shown_columns(const ReproducePlan& plan, const PaperTable& table) {
  auto columns = table.columns;
  const auto tasks = plan.data.glue_tasks.size();
  if (table.has_column("glue") && tasks > 0 && tasks < glue_headings().size())
    columns.push_back({"glue_some", formatted("Mean of %lld", tasks)});
  return columns;
}

Json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"seeds", spread.count}};
}

// The folders of the data, and which share of the images is held out.
std::string data_text(const DataFolders& data) {
  std::vector<std::string> names;
  for (const auto& name : {data.text.train, data.images})
    if (!name.empty()) names.push_back(name);
  auto text = join(names, " and ");
  if (data.images_held_out > 0)
    text +=
        formatted(" (%.0f %% of the images held out for validation)", 100 * data.images_held_out);
  return text;
}

// "+0.031", with a minus sign as wide as the plus.
std::string signed_text(double value) {
  return formatted("%s%.3f", value < 0 ? "\u2212" : "+", std::abs(value));
}

// Quotes a field as RFC 4180 does.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string markdown_cell(const std::string& column, const ReportCell& cell) {
  std::string text = cell.ours.count > 0 ? spread_text(column, cell.ours) : "";
  if (cell.published)
    text += concat(text.empty() ? "" : " ", "(", number_text(column, *cell.published, false), ")");
  return text;
}

}  // namespace

bool ReportRow::best(std::size_t column, const std::vector<ReportRow>& rows, bool lower) const {
  if (cells[column].ours.count == 0) return false;
  return std::none_of(rows.begin(), rows.end(), [&](const ReportRow& other) {
    const auto& theirs = other.cells[column].ours;
    return theirs.count > 0 &&
           (lower ? theirs.mean < cells[column].ours.mean : theirs.mean > cells[column].ours.mean);
  });
}

Report make_report(const ReproducePlan& plan, const std::string& version) {
  Report report{plan, version, read_results(plan), {}, {}, finished_recall(plan)};
  for (const auto* table : plan.tables) {
    ReportTable shown{table, seeds_of(plan, *table), shown_columns(plan, *table), {}};
    for (const auto& row : table->rows) {
      ReportRow line{row, {}, {}};
      if (!row.name.empty()) line.commands = row_commands(plan, row.name, 1);
      for (const auto& column : shown.columns) {
        ReportCell cell;
        if (!row.name.empty())
          cell.ours = spread(report.results[row.name].of(column.key, shown.seeds));
        if (const auto found = row.published.find(column.key); found != row.published.end())
          cell.published = found->second;
        line.cells.push_back(cell);
      }
      shown.rows.push_back(std::move(line));
    }
    report.tables.push_back(std::move(shown));
  }
  report.findings = findings(plan, report.results);
  return report;
}

std::string number_text(const std::string& column, double value, bool more_digits) {
  if (column == kParameters)
    return value < 1 ? formatted("%.0fk", 1000 * value)
                     : formatted(more_digits ? "%.1fM" : "%.0fM", value);
  if (column == kLoss) return formatted(more_digits ? "%.3f" : "%.2f", value);
  return formatted("%.1f", value);
}

std::string spread_text(const std::string& column, const Spread& spread) {
  auto text = number_text(column, spread.mean, true);
  if (spread.count > 1 && column != kParameters)
    text += " ± " + number_text(column, spread.deviation, true);
  return text;
}

std::string comparison_text(const Comparison& comparison) {
  const auto& d = comparison.difference;
  if (d.count == 0) return comparison.text + ": not measured";
  if (comparison.half_width == 0) return comparison.text;
  auto text = comparison.text + ": " + signed_text(d.mean);
  if (d.count > 1)
    text += formatted(" ± %.3f, 95 %% interval %s to %s", d.deviation,
                      signed_text(d.mean - comparison.half_width),
                      signed_text(d.mean + comparison.half_width));
  return text + ", " + counted(d.count, "seed");
}

std::string scale_text(const ReproducePlan& plan) {
  if (plan.tables.empty()) return "Scale " + scale_name(plan.scale) + ".";
  switch (plan.scale) {
    case Scale::kTiny:
      return "Scale tiny: models of two to four layers and 64 channels learn the built-in "
             "language, its eight GLUE tasks and drawn images. The paper's models are a "
             "thousand times larger, on real data: compare the order of rows, not the numbers.";
    case Scale::kSmall:
      return "Scale small: models of six to twelve layers and 256 channels learn from " +
             data_text(plan.data) +
             ". The paper's models are many times larger, on C4 and ImageNet: compare the order of "
             "rows, not the numbers.";
    case Scale::kAsPublished:
      break;
  }
  return "Scale paper: the full recipes on " + data_text(plan.data) + ".";
}

std::string report_markdown(const Report& report) {
  std::string out = "# The paper's tables, scale " + scale_name(report.plan.scale) + "\n\n" +
                    scale_text(report.plan) + "\n";
  if (!report.tables.empty())
    out +=
        "\nOurs: mean ± standard deviation over the seeds. In brackets: the paper's number.\n\n"
        "## Findings\n\n";
  for (const auto& finding : report.findings) {
    out += formatted("- **%s**: %s (paper: %s)\n", answer_text(finding.answer), finding.statement,
                     finding.paper);
    for (const auto& part : finding.parts)
      out += formatted("  - %s: %s\n", answer_text(part.answer), comparison_text(part));
  }
  for (const auto& table : report.tables) {
    out += "\n## " + table.table->title + "\n\n" + table.table->about + " " +
           counted(table.seeds, "seed") + ".\n\n| |";
    const bool marks = !table.table->mark_heading.empty();
    if (marks) out += " " + table.table->mark_heading + " |";
    for (const auto& column : table.columns) out += " " + column.heading + " |";
    out += "\n| --- |" + std::string(marks ? " --- |" : "");
    for (std::size_t i = 0; i < table.columns.size(); ++i) out += " --- |";
    for (const auto& row : table.rows) {
      out += "\n| " + row.row.label + " |";
      if (marks) out += " " + row.row.mark + " |";
      for (std::size_t i = 0; i < table.columns.size(); ++i)
        out += " " + markdown_cell(table.columns[i].key, row.cells[i]) + " |";
    }
    out += "\n\n```\n";
    for (const auto& row : table.rows) {
      if (!row.commands.train.empty()) out += row.commands.train + "\n";
      if (!row.commands.glue.empty()) out += row.commands.glue + "\n";
    }
    out += "```\n";
  }
  if (report.plan.recall) out += "\n" + recall_markdown(report.recall);
  return out + "\nhydramix " + report.version + "\n";
}

std::string report_csv(const Report& report) {
  std::string out = "table,row,label,mark,column,paper,mean,deviation,seeds\n";
  for (const auto& table : report.tables)
    for (const auto& row : table.rows)
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const auto& cell = row.cells[i];
        if (cell.ours.count == 0 && !cell.published) continue;
        out += table.table->name + "," + csv_field(row.row.name) + "," + csv_field(row.row.label) +
               "," + csv_field(row.row.mark) + "," + table.columns[i].key + "," +
               (cell.published ? formatted("%g", *cell.published) : std::string()) + ",";
        out += cell.ours.count > 0 ? formatted("%.6g,%.6g,%lld\n", cell.ours.mean,
                                               cell.ours.deviation, cell.ours.count)
                                   : ",,0\n";
      }
  return out + recall_csv(report.recall);
}

Json report_json(const Report& report) {
  Json out{{"scale", scale_name(report.plan.scale)}, {"version", report.version}};
  out["findings"] = Json::array();
  for (const auto& finding : report.findings) {
    Json one{{"table", finding.table},
             {"statement", finding.statement},
             {"paper", finding.paper},
             {"answer", answer_text(finding.answer)},
             {"comparisons", Json::array()}};
    for (const auto& part : finding.parts) {
      Json compared{{"text", part.text}, {"difference", spread_json(part.difference)}};
      compared["half_width"] =
          std::isfinite(part.half_width) ? Json(part.half_width) : Json(nullptr);
      compared["answer"] = answer_text(part.answer);
      one["comparisons"].push_back(compared);
    }
    out["findings"].push_back(one);
  }
  out["tables"] = Json::array();
  for (const auto& table : report.tables) {
    Json one{{"name", table.table->name}, {"title", table.table->title}, {"seeds", table.seeds}};
    one["rows"] = Json::array();
    for (const auto& row : table.rows) {
      Json line{{"recipe", row.row.name}, {"label", row.row.label}, {"mark", row.row.mark}};
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (row.cells[i].published) line["paper"][table.columns[i].key] = *row.cells[i].published;
        if (row.cells[i].ours.count > 0)
          line["ours"][table.columns[i].key] = spread_json(row.cells[i].ours);
      }
      if (const auto found = report.results.find(row.row.name); found != report.results.end()) {
        line["parameters"] = found->second.parameters;
        line["tokens_per_second"] = found->second.tokens_per_second;
        if (table.table->of_images()) line["images_per_second"] = found->second.images_per_second;
        line["versions"] = found->second.versions;
        for (const auto& [seed, points] : found->second.curves)
          line["curves"][std::to_string(seed)] = points;
      }
      if (!row.commands.train.empty()) line["commands"]["train"] = row.commands.train;
      if (!row.commands.glue.empty()) line["commands"]["glue"] = row.commands.glue;
      one["rows"].push_back(line);
    }
    out["tables"].push_back(one);
  }
  if (report.plan.recall) out["recall"] = recall_json(report.recall);
  return out;
}

std::filesystem::path write_reports(const ReproducePlan& plan, const std::string& version) {
  const auto report = make_report(plan, version);
  write_file(plan.out / "report.md", report_markdown(report));
  write_file(plan.out / "report.csv", report_csv(report));
  write_file(plan.out / "report.json", report_json(report).dump(2) + "\n");
  write_file(plan.out / "report.html", report_html(report));
  return plan.out / "report.html";
}

}  // namespace hydramix
