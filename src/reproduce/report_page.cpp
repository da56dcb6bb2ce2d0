// SPDX-License-Identifier: Apache-2.0
// report.html: one file that loads nothing. Wide tables scroll in their own box, with the first
// column fixed. Charts work without scripts; the script only shows the values of a point where the
// browser has no tooltips, as on a phone.
#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/formatted.h"
#include "hydramix/error.h"
#include "reproduce/recall_stages.h"
#include "reproduce/report.h"
#include "reproduce/report_matrices.h"
#include "view/chart.h"
#include "view/dot_plot.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

// Paper, ink and muted text have the colours of view/theme.h.
constexpr const char* kPageHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Hydra's tables, reproduced</title>
<style>
:root { --paper: #fff; --ink: #1c202a; --muted: #626976; --rule: #d5d9e0; --soft: #f5f6f8; --yes: #0b6b43; --yes-soft: #d8f1e2; --no: #9b2c12; --no-soft: #fbe0d8; --open: #6b5900; --open-soft: #f6edc8; --accent: #0072b2; --edge: #0003; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #14171d; --ink: #e8eaef; --muted: #a3abb9; --rule: #343b47; --soft: #1d222b; --yes: #7fe0b0; --yes-soft: #17402d; --no: #ffb49e; --no-soft: #552a1e; --open: #f0dc8a; --open-soft: #4a4115; --accent: #6cc0f5; --edge: #000a; }
  .matrices div:not(.photo) img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 80rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
p, ul { max-width: 48rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin-bottom: .4rem; } h2 { margin-top: 3rem; font-size: 1.35rem; border-top: 1px solid var(--rule); padding-top: 1.4rem; } h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
a { color: var(--accent); } .muted { color: var(--muted); font-size: .9rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: 1rem 0; }
code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .85rem; }
pre { background: var(--soft); padding: .8rem; border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 .9rem; }
.badge { display: inline-block; justify-self: start; min-width: 7.2rem; text-align: center; font-weight: 600; font-size: .82rem; border-radius: 1rem; padding: .1rem .7rem; background: var(--soft); color: var(--muted); }
.badge.yes { background: var(--yes-soft); color: var(--yes); } .badge.no { background: var(--no-soft); color: var(--no); } .badge.open { background: var(--open-soft); color: var(--open); }
.findings { list-style: none; padding: 0; max-width: 60rem; } .findings > li { display: grid; grid-template-columns: 8rem 1fr; gap: .2rem .9rem; align-items: start; padding: .7rem 0; border-bottom: 1px solid var(--rule); }
.findings .muted { margin: .1rem 0 0; } .findings ul { margin: .3rem 0; padding-left: 1.1rem; }
.scroll { overflow-x: auto; margin: 1rem 0; background: linear-gradient(to left, var(--paper) 30%, transparent) right / 3rem 100% local no-repeat, linear-gradient(to left, var(--edge), transparent) right / 1rem 100% scroll no-repeat; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; vertical-align: top; }
thead th { vertical-align: bottom; font-weight: 600; } tbody th, thead th:first-child { text-align: left; font-weight: normal; position: sticky; left: 0; background: var(--paper); }
td.mark, thead th.mark { text-align: center; } .none { color: var(--muted); } td b { font-weight: 700; } td i { display: block; font-style: normal; color: var(--muted); font-size: .85rem; } td small { color: var(--muted); } tr.cited th, tr.cited td { background: var(--soft); }
figure { margin: 0; } svg { max-width: 100%; height: auto; } .charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); align-items: start; } .charts svg { width: 100%; max-width: 44rem; }
.hover { cursor: crosshair; } .hover:hover { fill-opacity: .35; }
.matrices { display: grid; gap: 1rem .8rem; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); } .matrices div { display: grid; gap: .3rem; grid-auto-flow: column; grid-auto-columns: 1fr; }
.matrices img { width: 100%; image-rendering: pixelated; border: 1px solid var(--rule); display: block; } .matrices figcaption { font-size: .85rem; line-height: 1.3; }
.findings summary { font-weight: normal; font-size: .9rem; padding: .1rem 0; } .findings details { margin: 0; } .findings details .badge { min-width: 0; } .counts { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; }
details { margin: .6rem 0; } summary { cursor: pointer; padding: .4rem 0; font-weight: 600; } summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
#values { position: fixed; display: none; pointer-events: none; background: var(--ink); color: var(--paper); border-radius: .4rem; padding: .25rem .6rem; font-size: .85rem; max-width: 16rem; z-index: 1; }
@media (max-width: 40rem) { body { padding: .8rem .8rem 3rem; } h1 { font-size: 1.45rem; } .findings > li { grid-template-columns: 1fr; } th, td { padding: .3rem .4rem; font-size: .88rem; } .matrices { grid-template-columns: repeat(2, 1fr); } }
@media print { html { font-size: 10px; } body { max-width: none; padding: 0; } .scroll { overflow: visible; background: none; } th, td { padding: .2rem .35rem; font-size: .9rem; } tbody th, thead th:first-child { position: static; } h2, h3 { break-after: avoid; } figure, tr, .findings > li { break-inside: avoid; } nav { display: none; } .charts { grid-template-columns: 1fr 1fr; } .matrices { grid-template-columns: repeat(6, 1fr); } }
</style>
</head>
<body>
<main>
)";

constexpr const char* kPageEnd = R"(</main>
<div id="values" role="status"></div>
<script>
(() => {
  const box = document.getElementById('values');
  const show = event => {
    const point = event.target.closest && event.target.closest('.hover');
    if (!point) { box.style.display = 'none'; return; }
    box.textContent = point.querySelector('title').textContent;
    box.style.display = 'block';
    box.style.left = Math.max(8, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)) + 'px';
    box.style.top = Math.max(8, event.clientY - 40) + 'px';
  };
  addEventListener('pointerdown', show);
  addEventListener('pointermove', show);
  addEventListener('scroll', () => { box.style.display = 'none'; }, true);
  const folded = () => document.querySelectorAll('.findings details, .runs');
  addEventListener('beforeprint', () => folded().forEach(part => { part.open = true; }));
})();
</script>
</body>
</html>
)";

const char* badge_class(Answer answer) {
  switch (answer) {
    case Answer::kYes:
      return " yes";
    case Answer::kNo:
      return " no";
    case Answer::kNotSeparated:
      return " open";
    case Answer::kNotMeasured:
      break;
  }
  return "";
}

std::string badge(Answer answer) {
  return formatted("<span class=\"badge%s\">%s</span>", badge_class(answer), answer_text(answer));
}

// "4 yes  1 no  3 not separated", and how many runs the report has.
std::string answer_counts(const Report& report) {
  std::string out = "<p class=\"counts\">";
  for (const auto answer :
       {Answer::kYes, Answer::kNo, Answer::kNotSeparated, Answer::kNotMeasured}) {
    const auto count =
        std::count_if(report.findings.begin(), report.findings.end(),
                      [&](const Finding& finding) { return finding.answer == answer; });
    if (count > 0) out += formatted("<span>%lld %s</span>", count, badge(answer));
  }
  return out + "</p>\n";
}

std::string findings_list(const Report& report) {
  std::string out, table;
  for (const auto& finding : report.findings) {
    if (finding.table != table) {
      out += (table.empty() ? "" : "</ul>\n") +
             ("<h3>" + xml_escaped(paper_table(finding.table).title)) +
             "</h3>\n<ul class=\"findings\">\n";
      table = finding.table;
    }
    out += "<li>" + badge(finding.answer) + "<div>" + xml_escaped(finding.statement) +
           "<p class=\"muted\">Paper: " + xml_escaped(finding.paper) + ".";
    if (finding.parts.size() == 1)
      out += " Ours: " + xml_escaped(comparison_text(finding.parts.front())) + ".</p>";
    else {
      out += "</p>\n<details><summary>" + counted(std::ssize(finding.parts), "comparison") +
             "</summary><ul>\n";
      for (const auto& part : finding.parts)
        out += "<li class=\"muted\">" + badge(part.answer) + " " +
               xml_escaped(comparison_text(part)) + "</li>\n";
      out += "</ul></details>";
    }
    out += "</div></li>\n";
  }
  return out + (table.empty() ? "" : "</ul>\n");
}

// Ours above the paper's number.
std::string table_cell(const ReportTable& table, const ReportRow& row, std::size_t i) {
  const auto& column = table.columns[i];
  const auto& cell = row.cells[i];
  std::string ours;
  if (cell.ours.count > 0) {
    ours = number_text(column.key, cell.ours.mean, true);
    if (column.key != "parameters" && row.best(i, table.rows, column.lower))
      ours = "<b>" + ours + "</b>";
    if (cell.ours.count > 1 && column.key != "parameters")
      ours += " <small>±&#8239;" + number_text(column.key, cell.ours.deviation, true) + "</small>";
  }
  // Keeps the paper's numbers of a row on one line.
  if (cell.ours.count == 0 && cell.published && !row.row.name.empty())
    ours = "<span class=\"none\">\u2013</span>";
  if (cell.published) ours += "<i>" + number_text(column.key, *cell.published, false) + "</i>";
  return "<td>" + ours + "</td>";
}

std::string results_table_html(const ReportTable& table) {
  const bool marks = !table.table->mark_heading.empty();
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\"></th>";
  if (marks)
    out += "<th scope=\"col\" class=\"mark\">" + xml_escaped(table.table->mark_heading) + "</th>";
  for (const auto& column : table.columns)
    out += "<th scope=\"col\">" + xml_escaped(column.heading) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += std::string(row.row.name.empty() ? "<tr class=\"cited\">" : "<tr>") +
           "<th scope=\"row\">" + xml_escaped(row.row.label) + "</th>";
    if (marks)
      out +=
          "<td class=\"mark\">" +
          (row.row.mark == "DD" || row.row.mark == "yes" ? "&#x2713;" : xml_escaped(row.row.mark)) +
          "</td>";
    for (std::size_t i = 0; i < table.columns.size(); ++i) out += table_cell(table, row, i);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

// The paper's figure begins at 10 000 of 70 000 steps: before, the fall of all curves would hide
// their differences. Ours begin at the same share of their steps.
constexpr double kFigureBegins = 1.0 / 7;

// Leaves out the points before that, if two or more remain.
void cut_beginning(ChartLine& line) {
  if (line.points.empty()) return;
  const double begins = kFigureBegins * line.points.back().first;
  const auto first = std::find_if(line.points.begin(), line.points.end(),
                                  [&](const auto& point) { return point.first >= begins; });
  const auto before = first - line.points.begin();
  if (std::ssize(line.points) - before < 2) return;
  line.points.erase(line.points.begin(), first);
  if (!line.range.empty()) line.range.erase(line.range.begin(), line.range.begin() + before);
}

// Mean and range over the seeds, at the steps that all of them have.
ChartLine mean_curve(const std::string& name, const RowResults& results) {
  std::map<double, std::vector<double>> steps;
  for (const auto& [seed, points] : results.curves)
    for (const auto& [step, loss] : points) steps[step].push_back(loss);
  ChartLine line;
  line.name = name;
  for (const auto& [step, losses] : steps) {
    if (losses.size() != results.curves.size()) continue;
    const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
    line.points.emplace_back(step, spread(losses).mean);
    line.range.emplace_back(*low, *high);
  }
  return line;
}

std::string curves_chart(const Report& report, const ReportTable& table) {
  const bool families = table.table->mark_heading == "DD";
  ChartPanel ours, paper;
  std::vector<std::string> names;
  for (const auto& row : table.rows) {
    const auto found = report.results.find(row.row.name);
    if (found == report.results.end() || found->second.curves.empty()) continue;
    auto line = mean_curve(row.row.label, found->second);
    if (line.points.empty()) continue;
    cut_beginning(line);
    // The two variants of a family have one colour.
    line.dashed = families && row.row.mark != "DD";
    if (std::find(names.begin(), names.end(), line.name) == names.end()) names.push_back(line.name);
    line.strong = row.row.name.ends_with("/hydra") || row.row.name.ends_with("quasiseparable_dd");
    ours.lines.push_back(std::move(line));
  }
  if (ours.lines.empty()) return "";
  // The legend shows the first line of a name.
  std::stable_partition(ours.lines.begin(), ours.lines.end(),
                        [](const ChartLine& line) { return !line.dashed; });
  if (table.table->name == "table3")
    for (const auto& row : table.rows)
      for (const auto& curve : published_curves())
        if (curve.row == row.row.name) {
          ChartLine line;
          line.name = row.row.label;
          line.points = curve.points;
          cut_beginning(line);
          line.dashed = true;
          paper.lines.push_back(std::move(line));
        }
  ChartOptions options;
  options.title = families ? "Validation loss, ours; dashed: data-independent"
                           : "Validation loss over steps, ours";
  options.x_label = "step";
  options.y_label = "cross-entropy";
  options.colours = names;
  options.from_zero = false;
  options.hover = true;
  std::string out = "<div class=\"charts\">\n<figure>";
  if (report.plan.scale == Scale::kAsPublished) {
    options.title = "Validation loss over steps; dashed: published";
    ours.lines.insert(ours.lines.end(), paper.lines.begin(), paper.lines.end());
    paper.lines.clear();
  }
  out += chart({ours}, options) + "</figure>\n";
  if (!paper.lines.empty()) {
    options.title = "The paper's figure: validation loss on C4";
    out += "<figure>" + chart({paper}, options) + "</figure>\n";
  }
  return out + "</div>\n";
}

// All mixers are too many for one chart of lines.
std::string losses_plot(const Report& report, const ReportTable& table) {
  std::vector<DotRow> rows;
  for (const auto& row : table.rows) {
    const auto found = report.results.find(row.row.name);
    if (found == report.results.end()) continue;
    const auto losses = found->second.of("loss", table.seeds);
    if (losses.empty()) continue;
    const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
    rows.push_back(
        {row.row.label, spread(losses).mean, *low, *high, losses, row.row.mark == "yes"});
  }
  if (rows.empty()) return "";
  std::sort(rows.begin(), rows.end(),
            [](const DotRow& a, const DotRow& b) { return a.mean < b.mean; });
  return "<div class=\"charts\">\n<figure>" +
         dot_plot(rows, {.title = "Validation loss; in colour: sequence-aligned",
                         .x_label = "cross-entropy",
                         .mean_label = "mean"}) +
         "</figure>\n</div>\n";
}

std::string runs_html(const Report& report, const ReportTable& table) {
  const bool of_images = table.table->of_images();
  std::string rows, commands;
  for (const auto& row : table.rows) {
    const auto found = report.results.find(row.row.name);
    if (row.row.name.empty() || found == report.results.end()) continue;
    const auto& own = found->second;
    std::string versions;
    for (const auto& version : own.versions) versions += (versions.empty() ? "" : ", ") + version;
    rows += formatted(
        "<tr><th scope=\"row\">%s</th><td>%lld</td><td>%lld</td><td>%lld</td><td>%.0f</td>"
        "<td>%s</td></tr>\n",
        xml_escaped(row_title(row)), own.parameters, own.steps,
        std::ssize(own.of("parameters", table.seeds)),
        of_images ? own.images_per_second : own.tokens_per_second, xml_escaped(versions));
    commands += "<pre>" + xml_escaped(row.commands.train);
    if (!row.commands.glue.empty()) commands += "\n" + xml_escaped(row.commands.glue);
    commands += "</pre>\n";
  }
  return "<details class=\"runs\"><summary>Parameters, throughput, seeds, versions</summary>\n<div "
         "class=\"scroll\"><table><thead><tr><th></th><th scope=\"col\">parameters</th><th "
         "scope=\"col\">steps</th><th scope=\"col\">seeds</th><th scope=\"col\">" +
         std::string(of_images ? "images/s" : "tokens/s") +
         "</th><th scope=\"col\">version</th></tr></thead><tbody>\n" + rows +
         "</tbody></table></div></details>\n<details><summary>Commands, one row each, seed "
         "1</summary>\n" +
         commands + "</details>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out = kPageHead;
  out += "<h1>Hydra's tables, reproduced</h1>\n<p>" + xml_escaped(scale_text(report.plan)) +
         "</p>\n<nav>";
  if (!report.tables.empty()) out += "<a href=\"#findings\">Findings</a>";
  for (const auto& table : report.tables)
    out += "<a href=\"#" + table.table->name + "\">" + xml_escaped(table.table->title) + "</a>";
  if (report.plan.recall) out += "<a href=\"#recall\">Recall</a>";
  out += "</nav>\n";
  if (!report.tables.empty())
    out +=
        "<h2 id=\"findings\">Findings</h2>\n<p class=\"muted\">Rows are compared seed by "
        "seed, since models of one seed see the same data in the same order. <b>yes</b>: the 95 % "
        "interval of the mean difference (Student's t) lies on the paper's side of zero. "
        "<b>no</b>: on the other side. <b>not separated</b>: it contains zero.</p>\n" +
        answer_counts(report) + findings_list(report);
  for (const auto& table : report.tables) {
    out += "<h2 id=\"" + table.table->name + "\">" + xml_escaped(table.table->title) +
           "</h2>\n<p>" + xml_escaped(table.table->about) +
           "</p>\n<p class=\"muted\">Ours above: mean ± standard "
           "deviation over " +
           counted(table.seeds, "seed") +
           (table.table->name == "mixers" ? "." : "; below, grey: the paper.") +
           (table.seeds > 1 ? " Without ±: one seed." : "") + " Bold: our best.</p>\n";
    out += results_table_html(table);
    out += table.table->name == "mixers" ? losses_plot(report, table) : curves_chart(report, table);
    out += matrices_html(report, table) + runs_html(report, table);
  }
  if (report.plan.recall) out += recall_html(report.recall, recall_commands(report.plan));
  return out + "<p class=\"muted\">hydramix " + xml_escaped(report.version) +
         ". Equal commands give equal models on equal machines.</p>\n" + kPageEnd;
}

}  // namespace hydramix
