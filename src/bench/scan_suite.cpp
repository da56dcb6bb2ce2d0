// SPDX-License-Identifier: Apache-2.0
// Scans alone: both directions of Hydra, and one (semiseparable), against the in_proj that feeds
// them; and backward alone against forward.
#include "bench/mixer_function.h"

namespace hydramix::bench {
namespace {

void scan(Bench& bench, const std::string& name, const Subject& subject) {
  const Options& o = bench.options;
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  const BlockOptions options = block_options(o, name);
  Comparison c;
  c.subject = subject;
  c.subject.name = name;
  c.error = verify_mixer(name, options, to_verify(subject, o), o.tolerance);
  const auto mixer = make_mixer(name, options.heads(), options.mixer_options);
  c.work = mixer_function(mixer, subject);
  c.work.flops = scan_flops(subject.tokens(), options, name == "hydra" ? 2 : 1);
  c.gemms = projection_gemm(*mixer, subject);
  c.forward = o.forward();
  c.forward_backward = o.forward_backward();
  c.backward_alone = true;
  for (const auto& m : measure(bench, c)) bench.report.measured(m);
}

}  // namespace

std::vector<Step> scan_suite(const Options& options) {
  std::vector<Step> steps;
  for (const std::string name : {"hydra", "semiseparable"})
    for (const Subject& subject : subjects(options, "scan", /*with_packed=*/true))
      steps.push_back({name + " " + title(subject),
                       [name, subject](Bench& bench) { scan(bench, name, subject); }});
  return steps;
}

}  // namespace hydramix::bench
