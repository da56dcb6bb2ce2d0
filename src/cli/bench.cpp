// SPDX-License-Identifier: Apache-2.0
// hydramix bench: the speed of each part, compared with its matrix products.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "base/memory.h"
#include "bench/suite.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// Rows on stdout, progress on stderr. Where both are the same terminal, a row replaces the bar.
void print_line(const std::string& line) {
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int run_bench(const bench::Options& options) {
  const auto suites =
      options.suite == "all" ? bench::kSuites : std::vector<std::string>{options.suite};
  std::vector<std::pair<std::string, std::vector<bench::Step>>> plan;
  for (const auto& suite : suites) {
    auto steps = bench::suite_steps(suite, options);
    std::erase_if(steps, [&](const bench::Step& step) {
      return step.name.find(options.only) == std::string::npos;
    });
    plan.emplace_back(suite, std::move(steps));
  }
  HYDRAMIX_CHECK_USAGE(std::any_of(plan.begin(), plan.end(),
                                   [](const auto& suite) { return !suite.second.empty(); }),
                       "--only: no step has '", options.only, "' in its name.");

  keep_memory_mapped();
  // Opened first, so that an unwritable file is an error before hours of measuring.
  std::unique_ptr<AtomicFile> json;
  if (!options.json.empty()) json = std::make_unique<AtomicFile>(options.json);
  bench::Bench bench{.options = options,
                     .machine = bench::Machine(options.timer()),
                     .report = {.measured =
                                    [&](const bench::Measurement& m) {
                                      print_line(table_row(m));
                                      if (json) json->write(json_line(m) + "\n");
                                    },
                                .remark = print_line}};
  for (const auto& [suite, steps] : plan) {
    print_line(concat("\n", suite, "\n", bench::table_header()));
    Progress progress(suite, static_cast<int64_t>(steps.size()), "steps");
    for (const auto& step : steps) {
      step.run(bench);
      progress.advance({step.name});
    }
  }
  if (json) json->commit();
  return 0;
}

}  // namespace

Command bench_command() {
  return make_command<bench::Options>(
      "bench", "measure blocks, scans, mixers and models beside their matrix products", run_bench,
      "Verifies each result against its float64 oracle (a wrong result is not timed, and the "
      "command exits with 1), then times it alternately with the matrix products that it is "
      "compared with and prints medians; 'ratio' is the time over theirs. docs/performance.md says "
      "how to read it.");
}

}  // namespace hydramix
