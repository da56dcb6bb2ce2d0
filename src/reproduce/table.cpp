// SPDX-License-Identifier: Apache-2.0
// The numbers are typed from the tables of the paper; comments name the LaTeX label of each.
#include "reproduce/table.h"

#include <algorithm>

#include "base/spelling.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "reproduce/row_recipe.h"

namespace hydramix {
namespace {

std::vector<TableColumn> text_columns(bool tasks, bool average) {
  std::vector<TableColumn> columns{
      {"parameters", "#Params"}, {"loss", "Loss", true}, {"accuracy", "Acc"}};
  if (tasks)
    for (const auto& task : glue_headings()) columns.push_back({task, task});
  if (average) columns.push_back({"glue", "GLUE Avg"});
  return columns;
}

// #Params, loss, accuracy, the eight tasks, their average.
RowNumbers with_tasks(const std::vector<double>& numbers) {
  RowNumbers row{
      {"parameters", numbers.at(0)}, {"loss", numbers.at(1)}, {"accuracy", numbers.at(2)}};
  for (std::size_t i = 0; i < glue_headings().size(); ++i)
    row[glue_headings()[i]] = numbers.at(3 + i);
  row["glue"] = numbers.at(11);
  return row;
}

// A row without loss and accuracy, as in tab:full_glue.
RowNumbers tasks_alone(const std::vector<double>& numbers) {
  RowNumbers row{{"parameters", numbers.at(0)}};
  for (std::size_t i = 0; i < glue_headings().size(); ++i)
    row[glue_headings()[i]] = numbers.at(1 + i);
  row["glue"] = numbers.at(9);
  return row;
}

// tab:abl_structures. DD: the matrix is made from the input (sequence-aligned).
PaperTable table2() {
  const auto row = [](const char* recipe, const char* label, bool dd,
                      const std::vector<double>& numbers) {
    return TableRow{std::string("table2/") + recipe, label, dd ? "DD" : "", with_tasks(numbers)};
  };
  return {"table2",
          "Table 2: families of matrices",
          "The same block and training around fourteen matrices. DD: the matrix is made from the "
          "input, so that it is sequence-aligned; the others are learned tables.",
          "DD",
          text_columns(true, true),
          {row("dense_di", "Dense", false,
               {71, 2.05, 59.6, 73.3, 76.2, 85.3, 64.4, 90.8, 84.7, 45.7, 76.8, 74.7}),
           row("toeplitz_di", "Toeplitz", false,
               {71, 1.97, 60.8, 74.6, 79.6, 86.6, 66.1, 90.9, 84.2, 45.7, 79.1, 75.8}),
           row("toeplitz_dd", "Toeplitz", true,
               {72, 1.91, 61.9, 77.3, 81.8, 88.1, 67.1, 90.7, 87.3, 45.3, 84.1, 77.7}),
           row("dft_di", "DFT", false,
               {71, 2.46, 53.1, 70.4, 70.8, 84.5, 59.9, 89.8, 83.6, 44.4, 69.8, 71.7}),
           row("vandermonde_di", "Vandermonde", false,
               {71, 2.46, 53.0, 55.2, 61.3, 82.5, 66.3, 87.4, 84.2, 45.8, 84.2, 70.8}),
           row("vandermonde_dd", "Vandermonde", true,
               {70, 2.04, 59.7, 74.1, 80.0, 86.2, 67.9, 89.3, 84.3, 46.0, 80.1, 76.0}),
           row("cauchy_di", "Cauchy", false,
               {71, 2.25, 56.2, 75.3, 81.3, 86.7, 66.6, 88.8, 84.5, 27.4, 83.2, 74.2}),
           row("cauchy_dd", "Cauchy", true,
               {70, 1.94, 61.6, 77.5, 84.4, 84.2, 68.0, 91.0, 86.7, 48.1, 85.2, 78.2}),
           row("low_rank_di", "Low-rank", false,
               {71, 2.06, 59.4, 73.7, 76.5, 85.1, 61.5, 90.6, 85.8, 49.2, 76.6, 74.9}),
           row("low_rank_dd", "Low-rank", true,
               {70, 1.90, 62.2, 77.6, 84.1, 88.2, 69.1, 91.0, 85.9, 47.6, 83.9, 78.4}),
           row("attention_di", "Attention", false,
               {71, 2.08, 59.1, 71.0, 70.4, 83.5, 62.3, 89.9, 83.3, 49.6, 65.2, 71.9}),
           row("attention_dd", "Attention", true,
               {70, 1.87, 62.9, 78.5, 85.4, 88.4, 67.9, 91.2, 86.4, 47.8, 84.3, 78.8}),
           row("quasiseparable_di", "Quasiseparable", false,
               {72, 2.03, 59.8, 73.8, 78.1, 87.1, 64.3, 90.2, 84.4, 45.5, 77.2, 75.1}),
           row("quasiseparable_dd", "Quasiseparable", true,
               {71, 1.84, 63.3, 79.5, 85.5, 88.6, 69.8, 91.9, 88.4, 48.4, 85.6, 79.7})}};
}

// tab:bidirection
PaperTable table3() {
  const auto row = [](const char* recipe, const char* label, double millions, double loss,
                      double accuracy, double glue) {
    return TableRow{
        std::string("table3/") + recipe,
        label,
        "",
        {{"parameters", millions}, {"loss", loss}, {"accuracy", accuracy}, {"glue", glue}}};
  };
  return {"table3",
          "Table 3: making Mamba bidirectional",
          "Mamba reads from left to right. Add, Mult and Concat run it in both directions and join "
          "the results; Quasi is Hydra, whose matrix is quasiseparable.",
          "",
          text_columns(false, true),
          {row("mamba", "Mamba", 68, 3.45, 39.5, 77.7), row("add", "Add", 70, 1.68, 65.6, 80.6),
           row("mult", "Mult", 70, 1.72, 64.9, 79.6), row("concat", "Concat", 69, 1.71, 65.4, 81.1),
           row("hydra", "Quasi (Hydra)", 70, 1.66, 65.9, 81.7)}};
}

// tab:glue; the 24-layer Hydra is tab:hydra_glue, rows from the literature are tab:full_glue.
PaperTable table4() {
  const auto row = [](const char* recipe, const char* label, const char* mark,
                      const std::vector<double>& numbers) {
    return TableRow{std::string("table4/") + recipe, label, mark, with_tasks(numbers)};
  };
  const auto cited = [](const char* label, const char* source, const std::vector<double>& numbers) {
    return TableRow{"", label, source, tasks_alone(numbers)};
  };
  return {
      "table4",
      "Table 4: Hydra and other encoders",
      "Whole encoders of about equal size, each with the layers that belong to it. Rows marked "
      "with a source are numbers that the paper cites from the literature; nothing is trained for "
      "them. The paper writes MLP-Mixer as a matrix; the nonlinear MLP-Mixer, which is none, is "
      "not "
      "in its table.",
      "Source",
      text_columns(true, true),
      {row("bert", "BERT", "",
           {110, 1.59, 67.3, 84.4, 90.3, 89.7, 77.1, 92.3, 90.7, 54.2, 89.1, 83.5}),
       row("mlp_mixer", "MLP-Mixer", "",
           {112, 1.77, 63.5, 77.2, 82.4, 87.6, 67.3, 90.5, 86.5, 43.0, 85.2, 77.5}),
       TableRow{"table4/mlp_mixer_nonlinear", "MLP-Mixer, nonlinear", "", {}},
       row("fnet", "FNet", "",
           {112, 1.94, 61.3, 74.9, 82.1, 85.7, 63.6, 87.6, 86.4, 42.7, 83.1, 75.8}),
       row("m2", "M2", "", {116, 1.65, 65.9, 80.5, 86.0, 87.0, 69.3, 92.3, 89.2, 56.0, 86.9, 80.9}),
       row("hydra", "Hydra", "",
           {112, 1.46, 69.1, 84.5, 90.0, 91.3, 77.5, 93.5, 91.2, 57.2, 88.9, 84.3}),
       row("hydra_24", "Hydra, 24 layers", "",
           {115, 1.45, 69.3, 83.7, 89.7, 89.7, 77.4, 92.8, 91.5, 54.7, 90.1, 83.7}),
       cited("BERT", "MosaicBERT paper",
             {110, 84.1, 89.8, 91.2, 77.2, 91.2, 87.5, 54.6, 88.9, 83.2}),
       cited("BERT", "FNet paper", {110, 82.5, 91.0, 87.0, 69.0, 93.0, 83.0, 73.0, 89.0, 83.3}),
       TableRow{"", "BERT", "M2 paper", {{"parameters", 110}, {"glue", 79.6}}},
       cited("FNet", "FNet paper", {83, 72.5, 80.0, 83.0, 63.0, 95.0, 76.0, 69.0, 79.0, 76.7}),
       cited("FNet", "FNet paper", {238, 77.0, 85.0, 85.0, 69.0, 94.0, 88.0, 78.0, 84.0, 81.9})}};
}

// tab:imagenet
PaperTable table5() {
  const auto row = [](const char* recipe, const char* label, const char* mark,
                      const std::vector<double>& numbers) {
    return TableRow{std::string("table5/") + recipe,
                    label,
                    mark,
                    {{"parameters", numbers.at(0)},
                     {"top1", numbers.at(1)},
                     {"top1_ema", numbers.at(2)},
                     {"top5", numbers.at(3)},
                     {"top5_ema", numbers.at(4)}}};
  };
  return {"table5",
          "Table 5: image classification",
          "The layers of a ViT around five mixers. EMA: of the weights' moving average. The paper "
          "cites its numbers of the rows marked literature; here all rows are trained alike.",
          "Paper's source",
          {{"parameters", "#Params"},
           {"top1", "Top-1"},
           {"top1_ema", "Top-1, EMA"},
           {"top5", "Top-5"},
           {"top5_ema", "Top-5, EMA"}},
          {row("vit-b", "ViT-B", "literature", {87, 78.8, 80.6, 94.2, 95.2}),
           row("s4nd-vit-b", "S4-ViT-B", "literature", {89, 79.4, 80.4, 94.2, 95.1}),
           row("hyena-vit-b", "Hyena-ViT-B", "literature", {88, 78.4, 76.4, 94.0, 93.0}),
           row("mamba-vit-b", "Mamba-ViT-B", "", {89, 79.1, 80.0, 94.2, 94.9}),
           row("hydra-vit-b", "Hydra-ViT-B", "", {91, 81.0, 81.6, 95.3, 95.6})}};
}

// Every registered mixer once. A mixer that Table 2 or 3 trains is that row.
PaperTable mixers_table(const std::vector<PaperTable>& others) {
  std::map<std::string, std::string> rows;
  for (const auto& table : others)
    if (table.name == "table2" || table.name == "table3")
      for (const auto& row : table.rows) rows.emplace(mixer_of(row.name), row.name);
  PaperTable table{"mixers",
                   "All mixers",
                   "Every mixer of this program in the paper's block. The paper has no such table.",
                   "Aligned",
                   text_columns(false, false),
                   {}};
  for (const auto& mixer : mixer_names()) {
    const auto found = rows.find(mixer);
    table.rows.push_back({found != rows.end() ? found->second : "mixers/" + mixer, mixer,
                          mixer_info(mixer).sequence_aligned ? "yes" : ""});
  }
  return table;
}

std::vector<PaperTable> make_tables() {
  std::vector<PaperTable> tables{table2(), table3(), table4(), table5()};
  tables.push_back(mixers_table(tables));
  return tables;
}

// A curve from losses at steps 2000, 4000, ..., 70000.
PublishedCurve curve(std::string row, std::string label, const std::vector<double>& losses) {
  PublishedCurve result{std::move(row), std::move(label), {}};
  for (std::size_t i = 0; i < losses.size(); ++i)
    result.points.emplace_back(2000.0 * static_cast<double>(i + 1), losses[i]);
  return result;
}

}  // namespace

bool PaperTable::has_column(const std::string& key) const {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const TableColumn& column) { return column.key == key; });
}

const std::vector<PaperTable>& paper_tables() {
  static const std::vector<PaperTable> tables = make_tables();
  return tables;
}

const PaperTable& paper_table(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& table : paper_tables()) {
    if (table.name == name || table.name == "table" + name) return table;
    known.push_back(table.name);
  }
  known.push_back(kRecallTable);
  throw UsageError(concat("reproduce: there is no table '", name,
                          "'; expected some of: ", join(known), ".", did_you_mean(name, known)));
}

// tab:bi_graph, whose points are given as numbers.
const std::vector<PublishedCurve>& published_curves() {
  static const std::vector<PublishedCurve> curves{
      curve("table3/concat", "Concat",
            {3.684, 2.67,  2.337, 2.198, 2.114, 2.056, 2.014, 1.98,  1.954, 1.928, 1.91,  1.894,
             1.877, 1.864, 1.852, 1.84,  1.831, 1.818, 1.809, 1.802, 1.793, 1.784, 1.778, 1.769,
             1.763, 1.757, 1.75,  1.743, 1.741, 1.734, 1.728, 1.721, 1.718, 1.715, 1.711}),
      curve("table3/mult", "Mult",
            {3.575, 2.649, 2.323, 2.185, 2.103, 2.047, 2.005, 1.972, 1.946, 1.921, 1.903, 1.887,
             1.871, 1.858, 1.846, 1.835, 1.827, 1.814, 1.805, 1.799, 1.79,  1.78,  1.774, 1.766,
             1.761, 1.754, 1.748, 1.74,  1.739, 1.733, 1.727, 1.72,  1.717, 1.714, 1.71}),
      curve("table3/add", "Add",
            {3.511, 2.591, 2.299, 2.165, 2.084, 2.025, 1.981, 1.947, 1.921, 1.896, 1.876, 1.86,
             1.845, 1.83,  1.819, 1.806, 1.799, 1.786, 1.777, 1.77,  1.762, 1.753, 1.746, 1.738,
             1.732, 1.726, 1.72,  1.712, 1.711, 1.705, 1.698, 1.692, 1.689, 1.686, 1.682}),
      curve("table3/hydra", "Quasi",
            {3.439, 2.53,  2.251, 2.124, 2.046, 1.993, 1.952, 1.921, 1.896, 1.872, 1.853, 1.839,
             1.824, 1.811, 1.8,   1.788, 1.781, 1.768, 1.759, 1.753, 1.744, 1.737, 1.729, 1.722,
             1.716, 1.71,  1.703, 1.697, 1.694, 1.689, 1.683, 1.677, 1.674, 1.671, 1.667})};
  return curves;
}

const std::vector<std::string>& glue_headings() {
  static const std::vector<std::string> headings{"MNLI", "QNLI", "QQP",  "RTE",
                                                 "SST2", "MRPC", "COLA", "STS"};
  return headings;
}

}  // namespace hydramix
