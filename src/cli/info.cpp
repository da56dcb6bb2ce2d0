// SPDX-License-Identifier: Apache-2.0
// hydramix info: this build and machine; the mixers, as the paper's table 1 has them; one mixer.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/spelling.h"
#include "cli/commands.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "kernels/cpu/isa.h"

namespace hydramix {
namespace {

struct InfoOptions {
  std::vector<std::string> topic;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("topic", self.topic, Positional{}, "nothing, mixers, or mixer NAME");
  }
};

// The file that serves matrix products: which BLAS is behind the usual name is decided at run time.
std::string blas_library() {
  Dl_info info{};
  void* gemm = dlsym(RTLD_DEFAULT, "sgemm_");
  if (gemm == nullptr || dladdr(gemm, &info) == 0 || info.dli_fname == nullptr)
    return "inside LibTorch";
  std::error_code ignored;
  const auto file = std::filesystem::canonical(info.dli_fname, ignored);
  std::string text = ignored ? info.dli_fname : file.string();
  if (auto* config =
          reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_config")))
    text += concat(" (", config(), ")");
  return text;
}

void print_build() {
  kernels::use_instruction_set_of_environment();
  const bool cuda = torch::cuda::is_available();
  std::printf("hydramix %s\n", HYDRAMIX_VERSION);
  std::printf("  LibTorch         %s\n", TORCH_VERSION);
  std::printf(
      "  CUDA             %s\n",
      cuda ? concat(static_cast<int>(torch::cuda::device_count()), " devices").c_str() : "no");
  std::printf("  BLAS             %s\n", blas_library().c_str());
  std::printf("  threads          %d\n", torch::get_num_threads());
  std::printf("  instruction set  %s, of %s (HYDRAMIX_ISA chooses)\n",
              kernels::instruction_set().c_str(), join(kernels::instruction_sets()).c_str());
  std::printf("  mixers           %zu (hydramix info mixers)\n", mixer_names().size());
}

void print_mixers() {
  std::vector<std::vector<std::string>> rows{
      {"mixer", "matrix class", "cost", "aligned", "extendable", "formula m_ij"}};
  for (const auto& name : mixer_names()) {
    const auto& m = mixer_info(name);
    rows.push_back({m.name, m.matrix_class, m.cost, m.sequence_aligned ? "yes" : "-",
                    m.extendable ? "yes" : "-", m.formula});
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c + 1 < row.size(); ++c)
      std::printf("%-*s  ", static_cast<int>(widths[c]), row[c].c_str());
    std::printf("%s\n", row.back().c_str());
  }
}

void print_mixer(const std::string& name) {
  const auto& m = mixer_info(name);
  const auto yes_no = [](bool b) { return b ? "yes" : "no"; };
  std::printf("%s\n  matrix class     %s\n  m_ij             %s\n", m.name.c_str(),
              m.matrix_class.c_str(), m.formula.c_str());
  std::printf("  cost of mix      %s\n  source           %s\n", m.cost.c_str(), m.source.c_str());
  std::printf("  sequence aligned %s%s\n", yes_no(m.sequence_aligned),
              m.sequence_aligned && m.row_normalized ? ", up to the row's normaliser" : "");
  std::printf("  extendable       %s\n  causal           %s\n", yes_no(m.extendable),
              yes_no(m.causal));
  const auto mixer = make_mixer(name, Heads{2, 4}, {.qk_dim = 3, .d_state = 5, .max_length = 7});
  std::printf("  with H = 2, P = 4, qk_dim = 3, d_state = 5, max_length = 7:\n");
  std::printf("    matrices per head  %lld\n", static_cast<long long>(mixer->branches()));
  for (const auto& c : mixer->projection())
    std::printf("    from in_proj       %-8s %4lld columns%s%s\n", c.name.c_str(),
                static_cast<long long>(c.width), c.conv ? ", convolved" : "",
                c.silu ? ", SiLU" : "");
  for (const auto& p : mixer->named_parameters())
    std::printf("    learned            %-12s %s\n", p.key().c_str(),
                concat(p.value().sizes()).c_str());
}

int info(const InfoOptions& options) {
  const auto& topic = options.topic;
  if (topic.empty())
    print_build();
  else if (topic[0] == "mixers" && topic.size() == 1)
    print_mixers();
  else if (topic[0] == "mixer" && topic.size() == 2)
    print_mixer(topic[1]);
  else
    throw UsageError(concat("info: expected nothing, 'mixers' or 'mixer NAME'; got '",
                            join(topic, " "), "'.", did_you_mean(topic[0], {"mixers", "mixer"})));
  return 0;
}

}  // namespace

Command info_command() {
  return make_command<InfoOptions>("info", "this build, the registered mixers, or one of them",
                                   info);
}

}  // namespace hydramix
