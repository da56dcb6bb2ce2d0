// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_report.h"

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "view/chart.h"
#include "view/svg.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>HydraMix demo</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c202a; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #e4e7ec; }
th:first-child, td:first-child { text-align: left; }
th, td:first-child { white-space: nowrap; }
td.text { min-width: 14rem; white-space: normal; }
.good { background: #e3f4ea; } .poor { background: #fbe9e4; } .muted { color: #626976; }
code, .text { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
.scroll { overflow-x: auto; }
.scroll svg { max-width: 100%; min-width: 40rem; height: auto; }
</style>
</head>
<body>
<h1>Every sequence mixer is a matrix</h1>
<p>Three encoders of the same shape, equal but for the matrix that mixes the words of a text, learned the
same made-up language by filling in masked words. A <b>causal</b> matrix (Mamba's, lower triangular) sees only what
stands to the left. <b>Hydra</b>'s is quasiseparable: it reads both ways, in linear time. <b>Attention</b>'s is dense,
in quadratic time.</p>
)";

std::string percent(double share) { return formatted("%.1f %%", 100 * share); }

// Green close to the achievable accuracy, red far below it.
const char* shade(double accuracy, double achievable) {
  if (accuracy >= 0.9 * achievable) return " class=\"good\"";
  return accuracy < 0.6 * achievable ? " class=\"poor\"" : "";
}

std::string results_table(const DemoReport& report) {
  std::string out =
      "<div "
      "class=\"scroll\">\n<table>\n<tr><th>model</th><th>parameters</th><th>tokens/s</th><th>loss</"
      "th>";
  for (const auto& [kind, head] : demo_columns()) out += "<th>" + xml_escaped(head) + "</th>";
  out += "</tr>\n";
  for (const auto& model : report.models) {
    out += "<tr><td>" + xml_escaped(model.name) + "</td><td>" +
           formatted("%lld", model.parameters) + "</td><td>" +
           formatted("%.0f", model.tokens_per_second) + "</td><td>" +
           formatted("%.3f", model.evaluation.at("loss").get<double>()) + "</td>";
    for (const auto& [kind, head] : demo_columns()) {
      const auto& numbers = model.evaluation.at("kinds").at(kind);
      const double accuracy = numbers.at("accuracy"), achievable = numbers.at("achievable");
      out +=
          formatted("<td%s>%s</td>", std::string(shade(accuracy, achievable)), percent(accuracy));
    }
    out += "</tr>\n";
  }
  out += "<tr class=\"muted\"><td>best achievable</td><td></td><td></td><td></td>";
  for (const auto& [kind, head] : demo_columns())
    out += "<td>" +
           percent(report.models.front().evaluation.at("kinds").at(kind).at("achievable")) +
           "</td>";
  return out + "</tr>\n</table>\n</div>\n";
}

std::string fills_table(const DemoReport& report) {
  std::string out = "<div class=\"scroll\">\n<table>\n<tr><th>text</th><th>needs</th>";
  for (const auto& model : report.models) out += "<th>" + xml_escaped(model.name) + "</th>";
  out += "</tr>\n";
  for (const auto& fill : report.fills) {
    out += "<tr><td class=\"text\">" + xml_escaped(fill.text) + "</td><td>" +
           xml_escaped(fill.kind) + "</td>";
    for (const auto& answer : fill.answers)
      out += formatted("<td class=\"%s\">%s</td>", answer == fill.right ? "good" : "poor",
                       xml_escaped(answer));
    out += "</tr>\n";
  }
  return out + "</table>\n</div>\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> demo_columns() {
  return {{"left", "left"},
          {"right", "right"},
          {"recall_left", "recall, left"},
          {"recall_right", "recall, right"}};
}

void write_demo_report(const std::filesystem::path& path, const DemoReport& report) {
  std::string out = kHead;
  out += "<h2>Masked words that were right</h2>\n";
  out += results_table(report);
  out +=
      "<p class=\"muted\">Each masked word is determined by words to its left or to its right, "
      "near "
      "(agreement, brackets, pronouns) or far (a fact stated in another sentence). Where these are "
      "masked too, no model can know it: the last line is the best that can be expected.</p>\n";
  out += "<h2>Learning</h2>\n";
  ChartPanel losses;
  for (const auto& model : report.models)
    losses.lines.push_back({model.name, "", "", model.losses});
  out += "<div class=\"scroll\">\n" +
         chart({losses}, {.title = "Loss on masked words, in training",
                          .x_label = "step",
                          .y_label = "cross-entropy"}) +
         "</div>\n";
  out += "<h2>A few masks</h2>\n" + fills_table(report);
  out += formatted(
      "<h2>Fine-tuning</h2>\n<p>The pretrained %s then saw %lld sentences of the task %s (%s). On "
      "%lld others its %s is <b>%s</b>; by chance it would be %s.</p>\n",
      xml_escaped(report.models.front().name), report.task.train, xml_escaped(report.task.name),
      xml_escaped(report.task.question), report.task.dev, report.task.metric,
      percent(report.task.value), percent(report.task.chance));
  out +=
      "<h2>The learned matrices</h2>\n<p>The matrix of each layer and head for one text. Row: the "
      "place that is computed; column: the place that it reads.</p>\n"
      "<p class=\"text\">" +
      xml_escaped(report.example) + "</p>\n";
  PageOptions page;
  page.columns = 4;
  for (const auto& model : report.models)
    out += "<h3>" + xml_escaped(model.name) + "</h3>\n<p class=\"muted\">" +
           xml_escaped(model.summary) + "</p>\n<div class=\"scroll\">\n" +
           svg_page(model.matrices, page) + "</div>\n";
  out += "<p class=\"muted\">Made by <code>" + xml_escaped(report.command) +
         "</code>; equal commands give equal models.</p>\n</body>\n</html>\n";
  write_file(path, out);
}

}  // namespace hydramix
