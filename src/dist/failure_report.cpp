// SPDX-License-Identifier: Apache-2.0
#include "dist/failure_report.h"

#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {

FailureReport diagnose(const FailedOperation& failed, const std::vector<Heartbeat>& before,
                       const std::vector<Heartbeat>& after, const std::vector<std::string>& names,
                       int64_t rank) {
  const auto& me = after[rank];
  const std::string waiting = concat(" while rank ", rank, " waited at ", me.place());
  const std::string waited = concat(" for ", seconds(failed.waited));
  const bool lost = failed.kind == FailedOperation::Kind::kConnectionLost;
  FailureReport report;
  std::vector<std::string> findings;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const auto& heartbeat = after[r];
    const bool silent = heartbeat.count == before[r].count;
    report.live_ranks += !heartbeat.left() && !silent;
    const std::string silence =
        silent ? " gives no sign of life (stopped, dead or unreachable)" : "";
    if (heartbeat.left())
      findings.push_back(concat(names[r], " has left the run", waiting));
    else if (silent && lost)
      findings.push_back(concat(names[r], " died: connection closed", waiting));
    else if (heartbeat.operation < me.operation && !lost)
      findings.push_back(concat(names[r], " has not reached ", me.place(), waited,
                                "; it was last seen at ", heartbeat.place(), silent ? " and" : "",
                                silence));
    else if (silent)
      findings.push_back(concat(names[r], silence, waiting, waited));
    else if (heartbeat.operation == me.operation && heartbeat.what != me.what)
      findings.push_back(
          concat(names[r], " is at another operation: ", heartbeat.place(), waiting));
  }
  // No rank is silent or late: only the backend's message is left.
  if (findings.empty())
    findings.push_back(concat(names[rank],
                              lost ? " lost its connections at " : " got no answer at ", me.place(),
                              lost ? "" : waited, ", though all ranks are alive"));
  report.text = join(findings, "; ");
  if (!failed.detail.empty()) report.text += concat(" (", failed.detail, ")");
  return report;
}

}  // namespace hydramix
