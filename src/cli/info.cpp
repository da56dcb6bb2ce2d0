// SPDX-License-Identifier: Apache-2.0
// hydramix info: this build and machine; the mixers, as in table 1 of the paper; one mixer.
#include <cstdio>

#include "base/formatted.h"
#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/mixer_probe.h"
#include "cli/mixer_table.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "kernels/cpu/isa.h"
#include "ops/product_rate.h"

namespace hydramix {
namespace {

struct InfoOptions {
  std::vector<std::string> topic;
  bool markdown = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("topic", self.topic, Positional{}, "nothing, mixers, or mixer NAME");
    v("markdown", self.markdown, "print the mixers as docs/mixers.md");
  }
};

ProductRates one_core_rates() {
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const ProductRates rates = measure_product_rates();
  torch::set_num_threads(threads);
  return rates;
}

void print_build() {
  kernels::use_instruction_set_of_environment();
  const bool cuda = torch::cuda::is_available();
  std::printf("hydramix %s\n", HYDRAMIX_VERSION);
  std::printf("  LibTorch         %s\n", TORCH_VERSION);
  std::printf(
      "  CUDA             %s\n",
      cuda ? concat(static_cast<int>(torch::cuda::device_count()), " devices").c_str() : "no");
  std::printf("  threads          %d\n", torch::get_num_threads());
  std::printf("  instruction set  %s, of %s (HYDRAMIX_ISA chooses)\n",
              kernels::instruction_set().c_str(), join(kernels::instruction_sets()).c_str());
  const ProductRates rates = one_core_rates();
  const auto of_peak = [&](double rate) {
    return formatted("%.0f GFLOP/s on one core, %.0f %% of its FMA peak", rate,
                     100 * rate / rates.fma_peak);
  };
  std::printf("  FMA peak         %.0f GFLOP/s on one core\n", rates.fma_peak);
  std::printf("  matrix products  %s\n", of_peak(rates.ours).c_str());
  std::printf("  LibTorch's BLAS  %s; %s\n", of_peak(rates.libtorch).c_str(),
              libtorch_blas().c_str());
  for (const auto& warning : product_warnings(rates))
    std::printf("                   warning: %s\n", warning.c_str());
  std::printf("  mixers           %zu (hydramix info mixers)\n", mixer_names().size());
}

void print_mixer(const std::string& name) {
  const auto& m = mixer_info(name);
  const auto yes_no = [](bool b) { return b ? "yes" : "no"; };
  std::printf("%s\n  matrix class     %s\n  %s             %s\n", m.name.c_str(),
              m.matrix_class.c_str(), m.linear ? "m_ij" : "y   ", m.formula.c_str());
  std::printf("  cost of mix      %s\n  source           %s\n", m.cost.c_str(), m.source.c_str());
  std::printf("  sequence aligned %s%s\n", yes_no(m.sequence_aligned),
              m.sequence_aligned && m.row_normalized ? ", up to the row's normaliser" : "");
  std::printf("  extendable       %s\n  causal           %s\n", yes_no(m.extendable),
              yes_no(m.causal));
  if (m.paper_aligned)
    std::printf("  paper's table 1  %s\n",
                *m.paper_aligned ? "sequence aligned" : "not sequence aligned");
  if (!m.paper_difference.empty())
    std::printf("                   ours differs: %s\n", m.paper_difference.c_str());
  if (!m.choose.empty()) std::printf("  choose it        %s\n", m.choose.c_str());
  if (!m.note.empty()) std::printf("                   %s\n", m.note.c_str());
  if (!m.published.empty()) std::printf("  as published     %s\n", m.published.c_str());
  std::printf("  options          %s\n", join(options_read(name)).c_str());
  const auto probe = probe_mixer(name);
  std::printf("  with %s:\n", kProbeSizes);
  std::printf("    matrices per head  %lld\n", static_cast<long long>(probe.branches));
  for (const auto& c : probe.projection)
    std::printf("    from in_proj       %-8s %4lld columns%s%s\n", c.name.c_str(),
                static_cast<long long>(c.width), c.conv ? ", convolved" : "",
                c.silu ? ", SiLU" : "");
  for (const auto& [weight, shape] : probe.learned)
    std::printf("    learned            %-12s %s\n", weight.c_str(),
                concat(c10::IntArrayRef(shape)).c_str());
}

int info(const InfoOptions& options) {
  const auto& topic = options.topic;
  HYDRAMIX_CHECK_USAGE(!options.markdown || topic == std::vector<std::string>{"mixers"},
                       "info: --markdown is for 'info mixers'.");
  if (topic.empty())
    print_build();
  else if (topic[0] == "mixers" && topic.size() == 1)
    std::printf("%s", (options.markdown ? mixers_page() : mixer_table()).c_str());
  else if (topic[0] == "mixer" && topic.size() == 2)
    print_mixer(topic[1]);
  else
    throw UsageError(concat("info: expected nothing, 'mixers' or 'mixer NAME'; got '",
                            join(topic, " "), "'.", did_you_mean(topic[0], {"mixers", "mixer"})));
  return 0;
}

}  // namespace

Command info_command() {
  return make_command<InfoOptions>(
      "info", "describe this build, the registered mixers, or one of them", info);
}

}  // namespace hydramix
