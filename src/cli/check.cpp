// SPDX-License-Identifier: Apache-2.0
// hydramix check: compares our results with a golden case, tensor by tensor.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/quotes.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "eval/case.h"
#include "hydramix/error.h"
#include "kernels/cpu/isa.h"

namespace hydramix {
namespace {

struct CheckOptions {
  std::vector<std::string> cases;
  double tolerance = 1e-9;
  std::string write;
  bool reference_toeplitz = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("cases", self.cases, Positional{}, Required{}, "cases to check, .safetensors");
    v("tolerance", self.tolerance, Range{0.0, kInfinity}, "largest relative error that passes");
    v("write", self.write,
      "write the computed tensors to this file, under the same names (one case only)");
    v("reference_toeplitz", self.reference_toeplitz,
      "read data-independent Toeplitz weights as the published code does, shifted by one lag");
  }
};

void print(const CaseReport& report) {
  for (const auto& tensor : report.tensors) {
    if (tensor.compared)
      std::printf("%-28s %-60s %9.2e  %s\n", escaped(report.name).c_str(),
                  escaped(tensor.name).c_str(), tensor.error, tensor.off ? "OFF" : "ok");
    else
      std::printf("%-28s %-60s %9s  %s\n", escaped(report.name).c_str(),
                  escaped(tensor.name).c_str(), "-", "not in the file");
  }
}

int check(const CheckOptions& options) {
  check_not_an_input("--write", options.write, {options.cases.begin(), options.cases.end()});
  HYDRAMIX_CHECK_USAGE(options.write.empty() || options.cases.size() == 1,
                       "--write takes the results of one case; got ", options.cases.size(),
                       " cases. Check them one by one.");
  kernels::use_instruction_set_of_environment();  // else its error would name the first case
  std::size_t tensors = 0, off = 0, cases_off = 0;
  for (const auto& path : options.cases) {
    const auto report = run_case(load_tensors(path), options.tolerance,
                                 {.reference_toeplitz = options.reference_toeplitz});
    const auto compared = std::count_if(report.tensors.begin(), report.tensors.end(),
                                        [](const TensorReport& t) { return t.compared; });
    HYDRAMIX_CHECK(
        compared > 0 || !options.write.empty(), path,
        ": holds no output to compare with (y, logits, loss, aux.M or grad.*). Add one, or "
        "give --write to get them.");
    print(report);
    for (const auto& tensor : report.tensors) tensors += tensor.compared, off += tensor.off;
    cases_off += !report.passed();
    if (!options.write.empty())
      save_tensors(options.write, report.computed,
                   {{"case", report.name}, {"module", report.module}});
  }
  std::printf("%zu cases, %zu tensors compared: %s\n", options.cases.size(), tensors,
              off == 0 ? "all within tolerance"
                       : concat(off, " tensors off in ", cases_off, " cases").c_str());
  return off == 0 ? 0 : 1;
}

}  // namespace

Command check_command() {
  return make_command<CheckOptions>(
      "check", "compare a module's outputs and gradients with a golden case", check,
      "Reads cases made from the published PyTorch modules (docs/golden.md), computes every "
      "output and gradient in float64 and prints one line per tensor with its worst relative "
      "error. Exits with 1 if any is above the tolerance.");
}

}  // namespace hydramix
