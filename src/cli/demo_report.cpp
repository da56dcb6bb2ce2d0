// SPDX-License-Identifier: Apache-2.0
// Plain HTML without scripts. The tables have one column per model, so that they fit a telephone;
// the table of examples becomes a list of cards there.
#include "cli/demo_report.h"

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "view/chart.h"
#include "view/png.h"
#include "view/svg.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

// Paper, ink and muted text have the colours of view/theme.h.
constexpr const char* kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>HydraMix demo</title>
<style>
:root { --paper: #fff; --ink: #1c202a; --muted: #626976; --rule: #d5d9e0; --good: #d8f1e2; --poor: #fbe0d8; --mark: #ffdf80; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171d; --ink: #e8eaef; --muted: #a3abb9; --rule: #343b47; --good: #17402d; --poor: #552a1e; --mark: #ffd25e; }
  .heads img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 78rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
p, li { max-width: 46rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.4rem; font-size: 1.3rem; } h3 { font-size: 1.05rem; margin-bottom: .2rem; }
.muted { color: var(--muted); font-size: .9rem; }
code, .text { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--rule); }
thead th { vertical-align: bottom; } tbody th, .group th { text-align: left; font-weight: normal; } .group th { padding-top: .9rem; color: var(--muted); }
.good { background: var(--good); } .poor { background: var(--poor); }
mark { background: var(--mark); color: #1c202a; font-weight: bold; padding: 0 .2em; border-radius: .2em; }
.fills th, .fills td { text-align: left; vertical-align: top; white-space: nowrap; } .fills .text { min-width: 20rem; white-space: normal; }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
.chart svg { width: 100%; max-width: 42rem; }
.side { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.heads { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); }
.heads img { width: 100%; image-rendering: pixelated; border: 1px solid var(--rule); display: block; }
summary { cursor: pointer; padding: .5rem 0; } summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
@media (max-width: 40rem) {
  table { width: 100%; } th, td { padding: .35rem .3rem; font-size: .88rem; } .results th, .results td { padding: .35rem .15rem; font-size: .82rem; }
  .fills thead { display: none; } .fills, .fills tbody { display: block; }
  .fills tr { display: grid; grid-template-columns: 1fr 1fr; border: 1px solid var(--rule); border-radius: .4rem; margin-bottom: .8rem; padding: .3rem; }
  .fills td { border: 0; min-width: 0; white-space: normal; } .fills .text { grid-column: 1 / -1; min-width: 0; }
  .fills td[data-name]::before { content: attr(data-name) ": "; color: var(--muted); }
}
</style>
</head>
<body>
<main>
<h1>Every sequence mixer is a matrix</h1>
<p>Three encoders of the same shape, equal but for the matrix that mixes the words of a text, learned the
same made-up language by filling in masked words. A <b>causal</b> matrix (Mamba's, lower triangular) sees only what
stands to the left. <b>Hydra</b>'s is quasiseparable: it reads both ways, in linear time. <b>Attention</b>'s is dense,
in quadratic time.</p>
)";

std::string percent(double share) { return formatted("%.1f %%", 100 * share); }

// Green close to the expected ceiling, red far below it.
const char* shade(double accuracy, double ceiling) {
  if (accuracy >= 0.9 * ceiling) return " class=\"good\"";
  return accuracy < 0.6 * ceiling ? " class=\"poor\"" : "";
}

// A row of the table of results, one cell per model and an empty one for the ceiling.
template <class Cell>
std::string plain_row(const DemoReport& report, const char* head, Cell cell) {
  std::string out = formatted("<tr><th scope=\"row\">%s</th>", head);
  for (const auto& model : report.models) out += "<td>" + cell(model) + "</td>";
  return out + "<td></td></tr>\n";
}

std::string results_table(const DemoReport& report) {
  std::string out = "<table class=\"results\">\n<thead><tr><td></td>";
  for (const auto& model : report.models)
    out += "<th scope=\"col\">" + xml_escaped(model.name) + "</th>";
  out += "<th scope=\"col\">expected ceiling</th></tr></thead>\n<tbody>\n";
  out += plain_row(report, "parameters",
                   [](const DemoModel& m) { return formatted("%lld", m.parameters); });
  out += plain_row(report, "tokens/s in training",
                   [](const DemoModel& m) { return formatted("%.0f", m.tokens_per_second); });
  out += plain_row(report, "loss", [](const DemoModel& m) {
    return formatted("%.3f", m.evaluation.at("loss").get<double>());
  });
  out += formatted(
      "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"%lld\">masked words predicted "
      "correctly, by the position of the words that determine them</th></tr>\n",
      report.models.size() + 2);
  for (const auto& [kind, head] : demo_columns()) {
    out += "<tr><th scope=\"row\">" + xml_escaped(head) + "</th>";
    double ceiling = 0;
    for (const auto& model : report.models) {
      const auto& numbers = model.evaluation.at("kinds").at(kind);
      const double accuracy = numbers.at("accuracy");
      ceiling = numbers.at("achievable");
      out += formatted("<td%s>%s</td>", std::string(shade(accuracy, ceiling)), percent(accuracy));
    }
    out += "<td>" + percent(ceiling) + "</td></tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

// The text with its mask highlighted.
std::string marked(const std::string& text) {
  const std::string mask = "[MASK]";
  std::string out = xml_escaped(text);
  const auto at = out.find(mask);
  return at == std::string::npos ? out : out.replace(at, mask.size(), "<mark>" + mask + "</mark>");
}

// The roles keep it a table for screen readers where the style sheet turns it into cards.
std::string fills_table(const DemoReport& report) {
  const auto cell = [](const std::string& name, const char* shade, const std::string& text) {
    return formatted("<td role=\"cell\" data-name=\"%s\"%s>%s</td>", xml_escaped(name),
                     std::string(shade), text);
  };
  const auto head = [](const std::string& name) {
    return "<th role=\"columnheader\" scope=\"col\">" + xml_escaped(name) + "</th>";
  };
  std::string out =
      "<table class=\"fills\" role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">" +
      head("text") + head("depends on") + head("true word");
  for (const auto& model : report.models) out += head(model.name);
  out += "</tr></thead>\n<tbody role=\"rowgroup\">\n";
  for (const auto& fill : report.fills) {
    out += "<tr role=\"row\"><td role=\"cell\" class=\"text\">" + marked(fill.text) + "</td>" +
           cell("depends on", "", xml_escaped(fill.kind)) +
           cell("true word", "", "<b>" + xml_escaped(fill.right) + "</b>");
    for (std::size_t i = 0; i < fill.answers.size(); ++i) {
      const bool right = fill.answers[i] == fill.right;
      out += cell(report.models[i].name, right ? " class=\"good\"" : " class=\"poor\"",
                  (right ? "&#x2713; " : "&#x2717; ") + xml_escaped(fill.answers[i]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string loss_chart(const DemoReport& report) {
  ChartPanel losses;
  for (const auto& model : report.models) losses.lines.push_back({model.name, "", model.losses});
  return "<figure class=\"chart\">\n" +
         chart({losses}, {.title = "Loss on masked words, in training",
                          .x_label = "step",
                          .y_label = "cross-entropy, logarithmic",
                          .log_y = true}) +
         "</figure>\n";
}

std::string side_by_side(const DemoReport& report) {
  constexpr int64_t kEntry = 12;  // pixels: three matrices stand side by side on a wide screen
  std::string out = "<div class=\"side\">\n";
  for (const auto& model : report.models) {
    PageOptions page;
    page.cell_pixels = kEntry;
    out += "<figure>\n<figcaption class=\"muted\"><b>" + xml_escaped(model.name) + "</b>, " +
           xml_escaped(model.summary) + "</figcaption>\n" +
           svg_page({model.matrices[model.shown]}, page) + "</figure>\n";
  }
  return out + "</div>\n";
}

// Small pictures of one pixel per entry, which the browser enlarges.
std::string all_heads(const DemoModel& model) {
  std::string out = formatted("<details>\n<summary>All %lld heads of %s</summary>\n",
                              model.matrices.size(), xml_escaped(model.name)) +
                    "<div class=\"heads\">\n";
  for (const auto& picture : model.matrices) {
    const double scale = colour_scale(picture);
    out += formatted(
        "<figure><img src=\"%s\" alt=\"Matrix of %s, %s\"><figcaption class=\"muted\">%s<br>end "
        "colours &#xb1;%.2g</figcaption></figure>\n",
        png_data_uri(matrix_image(picture, scale, 1)), xml_escaped(model.name),
        xml_escaped(picture.title), xml_escaped(picture.title), scale);
  }
  return out + "</div>\n</details>\n";
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
  out += "<h2>What each model can predict</h2>\n" + results_table(report);
  out +=
      "<p class=\"muted\">Each masked word is determined by words to its left or to its right, "
      "near "
      "(agreement, brackets, pronouns) or far (recall: a fact stated in another sentence). Where "
      "these are masked too, no model can know it: the last column is the accuracy to expect of a "
      "model that uses all that is visible. It is an expectation, and luck may exceed it.</p>\n";
  out += "<h2>A few masks</h2>\n" + fills_table(report);
  out += "<h2>Learning</h2>\n" + loss_chart(report);
  out += formatted(
      "<h2>Fine-tuning</h2>\n<p>The pretrained %s then saw %lld sentences of the task %s (%s). On "
      "%lld others its %s is <b>%s</b>; by chance it would be %s.</p>\n",
      xml_escaped(report.models.front().name), report.task.train, xml_escaped(report.task.name),
      xml_escaped(report.task.question), report.task.dev, report.task.metric,
      percent(report.task.value), percent(report.task.chance));
  out +=
      "<h2>The learned matrices</h2>\n<p>One head of each model, the one that takes most from "
      "other "
      "words, for one text. A row shows the word that is computed, a column the word that it "
      "reads. "
      "Red adds, blue subtracts.</p>\n" +
      side_by_side(report);
  for (const auto& model : report.models) out += all_heads(model);
  out += "<p class=\"muted\">Made by <code>" + xml_escaped(report.command) +
         "</code>. Equal commands give equal models.</p>\n</main>\n</body>\n</html>\n";
  write_file(path, out);
}

}  // namespace hydramix
