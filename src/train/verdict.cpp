// SPDX-License-Identifier: Apache-2.0
#include "train/verdict.h"

#include <sstream>

#include "base/formatted.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {

std::string SignOfLife::text() const { return concat(beat, " ", operation, " ", what); }

SignOfLife SignOfLife::of(const std::string& text) {
  SignOfLife sign;
  std::istringstream in(text);
  in >> sign.beat >> sign.operation;
  in.ignore(1);
  std::getline(in, sign.what, '\0');
  return sign;
}

std::string SignOfLife::place() const {
  return operation == 0 ? "the start" : concat("operation ", operation, " (", what, ")");
}

std::string seconds(std::chrono::milliseconds time) {
  return formatted("%.4g s", static_cast<double>(time.count()) / 1000);
}

Verdict judge(const Complaint& complaint, const std::vector<SignOfLife>& before,
              const std::vector<SignOfLife>& after, const std::vector<std::string>& names,
              int64_t rank) {
  const auto& me = after[rank];
  const std::string waiting = concat(" while rank ", rank, " waited at ", me.place());
  const std::string waited = concat(" for ", seconds(complaint.waited));
  const bool lost = complaint.kind == Complaint::Kind::kLost;
  Verdict verdict;
  std::vector<std::string> findings;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const auto& sign = after[r];
    const bool silent = sign.beat == before[r].beat;
    verdict.listeners += !sign.left() && !silent;
    const std::string silence =
        silent ? " gives no sign of life (stopped, dead or unreachable)" : "";
    if (sign.left())
      findings.push_back(concat(names[r], " has left the run", waiting));
    else if (silent && lost)
      findings.push_back(concat(names[r], " died: connection closed", waiting));
    else if (sign.operation < me.operation && !lost)
      findings.push_back(concat(names[r], " has not reached ", me.place(), waited,
                                "; it was last seen at ", sign.place(), silent ? " and" : "",
                                silence));
    else if (silent)
      findings.push_back(concat(names[r], silence, waiting, waited));
    else if (sign.operation == me.operation && sign.what != me.what)
      findings.push_back(concat(names[r], " is at another operation: ", sign.place(), waiting));
  }
  // With nobody silent or behind, what the backend says is all there is.
  if (findings.empty())
    findings.push_back(concat(names[rank],
                              lost ? " lost its connections at " : " got no answer at ", me.place(),
                              lost ? "" : waited, ", though all ranks are alive"));
  verdict.text = join(findings, "; ");
  if (!complaint.detail.empty()) verdict.text += concat(" (", complaint.detail, ")");
  return verdict;
}

}  // namespace hydramix
