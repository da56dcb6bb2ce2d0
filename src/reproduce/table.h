// SPDX-License-Identifier: Apache-2.0
// The tables of Hydra (Hwang et al. 2024, "Hydra: Bidirectional State Space Models Through
// Generalized Matrix Mixers"): their rows, columns and published numbers, and a table of all
// registered mixers, which the paper does not have.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hydramix {

// Numbers by column: "parameters" in millions, "loss", and all others in percent.
using RowNumbers = std::map<std::string, double>;

struct TableColumn {
  std::string key;      // "loss", "accuracy", "MNLI", "glue", "top1", "top1_ema"
  std::string heading;  // as the paper writes it: "Acc", "STS"
  bool lower = false;   // lower is better
};

struct TableRow {
  std::string name;   // of the recipe (recipe_of); empty for a row from the literature
  std::string label;  // in the first column: "Toeplitz"
  std::string mark;   // in the second: "DD" for data-dependent, or the source of a row
  RowNumbers published = {};
};

struct PaperTable {
  std::string name;   // on the command line: "table3"
  std::string title;  // "Table 3: making Mamba bidirectional"
  std::string about;  // one or two sentences above the table
  std::string mark_heading;
  std::vector<TableColumn> columns;
  std::vector<TableRow> rows;

  bool has_column(const std::string& key) const;
  bool of_images() const { return has_column("top1"); }
};

// table2, table3, table4, table5, mixers.
const std::vector<PaperTable>& paper_tables();
// Finds a table by "table3" or "3". The UsageError for an unknown name suggests the nearest one.
const PaperTable& paper_table(const std::string& name);
// The name of the table for associative recall (recall_stages.h), which the paper does not have.
inline constexpr const char* kRecallTable = "recall";

// A curve of the figure next to Table 3: validation loss on C4 over steps.
struct PublishedCurve {
  std::string row, label;
  std::vector<std::pair<double, double>> points;  // (step, loss)
};
const std::vector<PublishedCurve>& published_curves();

// The eight GLUE tasks in the order of the tables, by their headings: MNLI, QNLI, QQP, RTE, SST2,
// MRPC, COLA, STS.
const std::vector<std::string>& glue_headings();

}  // namespace hydramix
