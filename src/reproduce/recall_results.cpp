// SPDX-License-Identifier: Apache-2.0
#include "reproduce/recall_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/formatted.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "view/chart.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTitle = "Recall: accuracy over state and operations";
constexpr const char* kAbout =
    "Multi-query associative recall (Arora et al. 2023): the share of queries answered with the "
    "value of their key, in percent; of several seeds the mean and the range. In brackets: "
    "operations for a token, forward, in thousands. Where a scale has several learning rates, the "
    "best counts. The paper prints no numbers for recall.";

std::string recall_label(const std::string& mixer) {
  for (const auto& one : recall_mixers())
    if (one.mixer == mixer) return one.label;
  return mixer;
}

std::vector<std::string> recall_labels() {
  std::vector<std::string> labels;
  for (const auto& mixer : recall_mixers()) labels.push_back(mixer.label);
  return labels;
}

std::set<int64_t> lengths_of(const std::vector<RecallPoint>& points) {
  std::set<int64_t> lengths;
  for (const auto& point : points) lengths.insert(point.length);
  return lengths;
}

std::set<int64_t> states_of(const std::vector<RecallPoint>& points) {
  std::set<int64_t> states;
  for (const auto& point : points)
    if (point.state > 0) states.insert(point.state);
  return states;
}

// "length 64, 8 pairs"
std::string length_title(const std::vector<RecallPoint>& points, int64_t length) {
  for (const auto& point : points)
    if (point.length == length) return formatted("length %lld, %lld pairs", length, point.pairs);
  return formatted("length %lld", length);
}

void add_to_line(ChartLine& line, double x, const RecallPoint& point) {
  const auto [low, high] = std::minmax_element(point.accuracies.begin(), point.accuracies.end());
  line.points.emplace_back(x, point.mean());
  line.range.emplace_back(*low, *high);
}

// A panel for each length with a line for each mixer. `add` puts a point into its mixer's line.
template <class Add>
std::vector<ChartPanel> recall_panels(const std::vector<RecallPoint>& points, const Add& add) {
  std::vector<ChartPanel> panels;
  for (const int64_t length : lengths_of(points)) {
    ChartPanel panel{length_title(points, length), {}};
    for (const auto& mixer : recall_mixers()) {
      ChartLine line{mixer.label, "", {}};
      line.strong = mixer.mixer == "hydra";
      for (const auto& point : points)
        if (point.length == length && point.mixer == mixer.mixer) add(line, point);
      if (!line.points.empty()) panel.lines.push_back(std::move(line));
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

struct RecallTable {
  std::string title;
  std::vector<std::vector<std::string>> rows;  // the first is the header
};

std::string cell_text(const RecallPoint& point) {
  std::string text = formatted("%.1f", point.mean());
  if (point.accuracies.size() > 1) {
    const auto [low, high] = std::minmax_element(point.accuracies.begin(), point.accuracies.end());
    text += formatted(" [%.1f, %.1f]", *low, *high);
  }
  return text + formatted(" (%.0fk)", point.flops_per_token / 1e3);
}

std::vector<RecallTable> recall_tables(const std::vector<RecallPoint>& points) {
  std::vector<RecallTable> tables;
  const auto states = states_of(points);
  const auto text_of = [&](const std::string& mixer, int64_t state, int64_t length) {
    for (const auto& point : points)
      if (point.mixer == mixer && point.state == state && point.length == length)
        return cell_text(point);
    return std::string();
  };
  for (const int64_t length : lengths_of(points)) {
    RecallTable table{"Recall, " + length_title(points, length), {{"Mixer", "Reads"}}};
    for (const int64_t state : states) table.rows[0].push_back(formatted("state %lld", state));
    table.rows[0].emplace_back("all tokens");
    for (const auto& mixer : recall_mixers()) {
      std::vector<std::string> row{mixer.label, mixer.causal ? "back" : "both ways"};
      for (const int64_t state : states) row.push_back(text_of(mixer.mixer, state, length));
      row.push_back(text_of(mixer.mixer, 0, length));
      if (std::any_of(row.begin() + 2, row.end(), [](const auto& cell) { return !cell.empty(); }))
        table.rows.push_back(std::move(row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

double RecallPoint::deviation() const {
  if (accuracies.size() < 2) return 0;
  double sum = 0;
  for (const double accuracy : accuracies) sum += (accuracy - mean()) * (accuracy - mean());
  return std::sqrt(sum / static_cast<double>(accuracies.size() - 1));
}

double RecallPoint::mean() const {
  return std::accumulate(accuracies.begin(), accuracies.end(), 0.0) /
         static_cast<double>(accuracies.size());
}

std::vector<RecallPoint> recall_points(const std::vector<std::pair<RecallCell, Json>>& results) {
  std::vector<RecallPoint> points;
  std::vector<std::map<int64_t, std::pair<double, double>>> best;  // by seed: accuracy, rate
  for (const auto& [cell, result] : results) {
    const auto same = [&cell = cell](const RecallPoint& point) {
      return point.mixer == cell.mixer && point.state == cell.state && point.length == cell.length;
    };
    auto found = std::find_if(points.begin(), points.end(), same);
    if (found == points.end()) {
      RecallPoint point;
      point.mixer = cell.mixer;
      point.state = cell.state;
      point.length = cell.length;
      point.pairs = result.at("pairs").get<int64_t>();
      point.parameters = result.at("parameters").get<int64_t>();
      point.flops_per_token = result.at("flops_per_token").get<double>();
      found = points.insert(points.end(), std::move(point));
      best.emplace_back();
    }
    const std::pair own{100 * result.at("accuracy").get<double>(), cell.rate};
    const auto [kept, is_new] =
        best[static_cast<std::size_t>(found - points.begin())].emplace(cell.seed, own);
    if (!is_new && own.first > kept->second.first) kept->second = own;
  }
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const auto& [seed, of_seed] : best[i]) {
      points[i].accuracies.push_back(of_seed.first);
      points[i].rates.push_back(of_seed.second);
    }
  return points;
}

std::string recall_state_chart(const std::vector<RecallPoint>& points) {
  const auto states = states_of(points);
  const auto panels = recall_panels(points, [&](ChartLine& line, const RecallPoint& point) {
    if (point.state > 0)
      add_to_line(line, static_cast<double>(point.state), point);
    else if (!states.empty())
      for (const int64_t end : {*states.begin(), *states.rbegin()}) {
        add_to_line(line, static_cast<double>(end), point);
        line.dashed = point.mixer == "attention";  // where both have the same accuracy, both show
      }
  });
  return chart(panels, {.title = "Associative recall over the state size",
                        .x_label = "state size or rank",
                        .y_label = "% of queries",
                        .log_x = true,
                        .colours = recall_labels(),
                        .hover = true});
}

std::string recall_flops_chart(const std::vector<RecallPoint>& points) {
  double least = kInfinity, most = 0;
  const auto panels = recall_panels(points, [&](ChartLine& line, const RecallPoint& point) {
    const double thousands = point.flops_per_token / 1e3;
    least = std::min(least, thousands);
    most = std::max(most, thousands);
    add_to_line(line, thousands, point);
  });
  constexpr double kManyTimes = 5;  // below it a logarithmic axis has too few round numbers
  return chart(panels, {.title = "Associative recall over operations",
                        .x_label = "thousand operations per token, forward",
                        .y_label = "% of queries",
                        .log_x = most > kManyTimes * least,
                        .round_x_ticks = true,
                        .colours = recall_labels(),
                        .hover = true});
}

std::string recall_markdown(const std::vector<RecallPoint>& points) {
  std::string text = std::string("## ") + kTitle + "\n\n" + kAbout + "\n";
  for (const auto& table : recall_tables(points)) {
    text += "\n### " + table.title + "\n\n";
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      text += "| " + join(table.rows[i], " | ") + " |\n";
      if (i > 0) continue;
      text += "|";
      for (std::size_t c = 0; c < table.rows[0].size(); ++c) text += c < 2 ? " --- |" : " ---: |";
      text += "\n";
    }
  }
  return text;
}

std::string recall_html(const std::vector<RecallPoint>& points,
                        const std::vector<std::string>& commands) {
  std::string text =
      std::string("<h2 id=\"recall\">") + kTitle + "</h2>\n<p>" + xml_escaped(kAbout) + "</p>\n";
  if (points.empty()) return text + "<p>No run is finished.</p>\n";
  for (const auto& table : recall_tables(points)) {
    text += "<h3>" + xml_escaped(table.title) + "</h3>\n<div class=\"scroll\"><table>\n<thead><tr>";
    for (const auto& cell : table.rows[0])
      text += "<th scope=\"col\">" + xml_escaped(cell) + "</th>";
    text += "</tr></thead>\n<tbody>\n";
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      text += "<tr><th scope=\"row\">" + xml_escaped(table.rows[i][0]) + "</th>";
      for (std::size_t c = 1; c < table.rows[i].size(); ++c)
        text += "<td>" + xml_escaped(table.rows[i][c]) + "</td>";
      text += "</tr>\n";
    }
    text += "</tbody>\n</table></div>\n";
  }
  text += "<div class=\"charts\">\n<figure>" + recall_state_chart(points) + "</figure>\n<figure>" +
          recall_flops_chart(points) +
          "</figure>\n</div>\n<details><summary>Commands, one run "
          "each, seed 1</summary>\n";
  for (const auto& command : commands) text += "<pre>" + xml_escaped(command) + "</pre>\n";
  return text + "</details>\n";
}

std::string recall_csv(const std::vector<RecallPoint>& points) {
  std::string text;
  for (const auto& point : points) {
    const auto place = point.state > 0
                           ? formatted("length %lld; state %lld", point.length, point.state)
                           : formatted("length %lld", point.length);
    const auto line = [&](const char* column, double mean, double deviation) {
      text += formatted("recall,%s,\"%s\",%s,%s,,%.6g,%.6g,%lld\n", point.mixer,
                        recall_label(point.mixer), place, column, mean, deviation,
                        point.accuracies.size());
    };
    line("accuracy", point.mean(), point.deviation());
    line("flops_per_token", point.flops_per_token, 0);
    line("parameters", static_cast<double>(point.parameters), 0);
  }
  return text;
}

Json recall_json(const std::vector<RecallPoint>& points) {
  auto all = Json::array();
  for (const auto& point : points)
    all.push_back({{"mixer", point.mixer},
                   {"state", point.state > 0 ? Json(point.state) : Json()},
                   {"length", point.length},
                   {"pairs", point.pairs},
                   {"parameters", point.parameters},
                   {"flops_per_token", point.flops_per_token},
                   {"accuracy", point.mean()},
                   {"accuracies", point.accuracies},
                   {"rates", point.rates}});
  return all;
}

}  // namespace hydramix
