// SPDX-License-Identifier: Apache-2.0
#include "bench/measurement.h"
#include "base/formatted.h"

#include <nlohmann/json.hpp>

namespace hydramix::bench {

std::string json_line(const Measurement& m) {
  nlohmann::ordered_json out = {
      {"suite", m.subject.suite},
      {"name", m.subject.name},
      {"pass", m.subject.pass},
      {"batch", m.subject.batch},
      {"length", m.subject.length},
      {"packed", m.subject.packed},
      {"threads", m.subject.threads},
      {"d_model", m.subject.d_model},
      {"ms", m.ms},
      {"tokens_per_s", m.tokens_per_s()},
      {"gemm_ms", m.gemm_ms},
      {"ratio", m.ratio()},
      {"gb_per_s", m.gigabytes_per_s()},
      {"bandwidth_share", m.gigabytes_per_s() / m.peak.gigabytes_per_s},
      {"fma_peak_gflops", m.peak.products.fma_peak},
      {"peak_gb_per_s", m.peak.gigabytes_per_s},
      {"rounds", m.rounds},
      {"error", m.error},
  };
  if (m.work.flops > 0) {
    out["gflops"] = m.gflops();
    out["fma_peak_share"] = m.gflops() / m.peak.products.fma_peak;
  }
  if (m.gemm_flops > 0) {
    out["gemm_gflops"] = m.gemm_gflops();
    out["gemm_fma_peak_share"] = m.gemm_gflops() / m.peak.products.fma_peak;
  }
  for (const auto& [name, value] : m.extra) out[name] = value;
  return out.dump();
}

std::string table_header() {
  return formatted("%-29s %-7s %12s %3s %10s %10s %8s %6s %6s %10s %6s %6s", "name", "pass",
                   "B x L", "thr", "ms", "tokens/s", "GFLOP/s", "% peak", "% mem", "GEMMs ms",
                   "% peak", "ratio");
}

std::string table_row(const Measurement& m) {
  const bool counted = m.work.flops > 0;
  const auto share = [&](double gflops) {
    return formatted("%.1f", 100 * gflops / m.peak.products.fma_peak);
  };
  std::string row = formatted(
      "%-29s %-7s %12s %3lld %10.4g %10.4g %8s %6s %6.1f %10.4g %6s %6.3g", m.subject.name,
      m.subject.pass == "forward"    ? "fwd"
      : m.subject.pass == "backward" ? "bwd"
                                     : "fwd+bwd",
      formatted("%lld x %lld%s", m.subject.batch, m.subject.length, m.subject.packed ? "p" : ""),
      m.subject.threads, m.ms, m.tokens_per_s(), counted ? formatted("%.4g", m.gflops()) : "-",
      counted ? share(m.gflops()) : "-", 100 * m.gigabytes_per_s() / m.peak.gigabytes_per_s,
      m.gemm_ms, m.gemm_flops > 0 ? share(m.gemm_gflops()) : "-", m.ratio());
  for (const auto& [name, value] : m.extra) row += formatted("  %s %.4g", name, value);
  return row;
}

}  // namespace hydramix::bench
