// SPDX-License-Identifier: Apache-2.0
// The paper's tables by one call: every row and seed is trained in a process of its own, several at
// a time, and the finished ones make the report.
#pragma once

#include "hydramix/options.h"
#include "reproduce/plan.h"

namespace hydramix {

struct ReproduceOptions {
  std::vector<std::string> tables;
  std::string scale = "tiny";
  std::vector<std::string> data;
  int64_t seeds = 0;
  int64_t jobs = 0;
  std::string out = "runs/reproduce";

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("tables", self.tables, Positional{},
      "table2 (or 2), table3, table4, table5, mixers, recall; by default all that the data "
      "allows");
    v("scale", self.scale, Required{},
      "tiny: small models, built-in data, minutes on two cores; small: one GPU and real text; "
      "paper: the full recipes");
    v("data", self.data,
      "folders of real data, for small and paper: token shards with their vocabulary, GLUE, "
      "images");
    v("seeds", self.seeds, Range{0, 1000},
      "seeds 1, 2, ... of every row; 0: three, one of the table of all mixers and at paper scale");
    v("jobs", self.jobs, Range{0, 1024},
      "runs at the same time; 0: one per core, or on GPUs four of small and one of paper scale on "
      "each");
    v("out", self.out, Required{}, "folder of the runs and of the report; finished runs are kept");
  }
};

// The tables and data of a call. Throws UsageError for wrong options, missing data, and a folder
// that holds another scale.
ReproducePlan plan_reproduction(const ReproduceOptions& options);

struct ReproduceOutcome {
  RunnerOutcome runs;
  std::filesystem::path report;  // report.html; beside it .md, .csv and .json
};

ReproduceOutcome reproduce(const ReproduceOptions& options, const std::filesystem::path& program,
                           const std::string& version, const RunnerEvents& events);

}  // namespace hydramix
