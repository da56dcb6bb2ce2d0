// SPDX-License-Identifier: Apache-2.0
#include "cli/mixer_table.h"

#include <algorithm>
#include <vector>

#include "base/formatted.h"
#include "base/spelling.h"
#include "bench/scaling_data.h"
#include "cli/mixer_probe.h"
#include "hydramix/error.h"
#include "mixers/paper_cost.h"

namespace hydramix {
namespace {

std::string tick(bool b) { return b ? "yes" : "-"; }

// A star where alignment holds only up to the rows' normalisers; the footnote below explains it.
std::string aligned_tick(const MixerInfo& m) {
  return tick(m.sequence_aligned) + (m.sequence_aligned && m.row_normalized ? "*" : "");
}

constexpr const char* kStar =
    "up to the rows' normalisers, which sum over all tokens: the experiment divides them out";

std::string paper_tick(const MixerInfo& m) { return m.paper_aligned ? tick(*m.paper_aligned) : ""; }

bool differs(const MixerInfo& m) {
  return m.paper_aligned && *m.paper_aligned != m.sequence_aligned;
}

// The slope as text, such as "1.02"; empty if it was not measured.
std::string slope_text(const std::string& name, const std::string& pass) {
  const auto slope = bench::measured_scaling().slope(name, pass);
  return slope ? formatted("%.2f", *slope) : "";
}

std::string difference(const MixerInfo& m) {
  const char* paper = *m.paper_aligned ? "the paper's table 1 ticks it as sequence aligned"
                                       : "the paper's table 1 does not tick it";
  return concat(m.name, ": ", paper, ", our experiment says ", m.sequence_aligned ? "yes" : "no",
                m.paper_difference.empty() ? "" : ": " + m.paper_difference, ".");
}

std::vector<std::string> differences() {
  std::vector<std::string> lines;
  for (const auto& name : mixer_names())
    if (differs(mixer_info(name))) lines.push_back(difference(mixer_info(name)));
  return lines;
}

std::string cost_text(const std::string& name) {
  const auto forward = slope_text(name, "forward"), both = slope_text(name, "forward_backward");
  std::string text = mixer_info(name).cost;
  if (!forward.empty()) text += "; measured L^" + forward;
  if (!both.empty()) text += ", with backward L^" + both;
  return text;
}

// A cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string columns_text(const MixerProbe& probe) {
  std::vector<std::string> parts;
  for (const auto& c : probe.projection)
    parts.push_back(concat(code(c.name), " (", c.width, c.conv ? ", convolved" : "",
                           c.silu ? ", SiLU" : "", ")"));
  return parts.empty() ? "none" : join(parts);
}

std::string learned_text(const MixerProbe& probe) {
  std::vector<std::string> parts;
  for (const auto& [weight, shape] : probe.learned) {
    std::vector<std::string> sizes;
    for (const int64_t size : shape) sizes.push_back(std::to_string(size));
    parts.push_back(code(weight) + " (" + join(sizes) + ")");
  }
  return parts.empty() ? "none" : join(parts);
}

std::string options_text(const std::string& name) {
  std::vector<std::string> parts;
  for (const auto& option : options_read(name)) parts.push_back(code(option));
  return parts.empty() ? "none" : join(parts);
}

std::string properties_text(const MixerInfo& m, bool reads_tokens) {
  std::vector<std::string> parts;
  if (m.sequence_aligned)
    parts.push_back(m.row_normalized ? "sequence aligned up to the rows' normalisers"
                                     : "sequence aligned");
  if (m.extendable) parts.push_back("extendable");
  if (m.causal) parts.push_back("causal");
  if (m.dropout) parts.push_back("drops entries in training");
  if (!m.extendable) parts.push_back("of limited length");
  if (!reads_tokens && !m.sequence_aligned) parts.push_back("data-independent");
  return join(parts);
}

std::string mixer_section(const std::string& name) {
  const auto& m = mixer_info(name);
  const auto probe = probe_mixer(name);
  std::string text = "### " + name + "\n\n";
  if (!m.choose.empty()) text += m.choose + "\n\n";
  if (!m.note.empty()) text += m.note + "\n\n";
  if (m.linear) text += "![The matrix of " + name + "](mixers/" + name + ".svg)\n\n";
  text += "| | |\n| --- | --- |\n";
  const auto row = [&](const std::string& what, const std::string& value) {
    text += "| " + what + " | " + cell(value) + " |\n";
  };
  row(m.linear ? "m_ij" : "y", code(m.formula));
  row("structure",
      m.matrix_class +
          (probe.branches > 1 ? concat(", ", probe.branches, " matrices per head") : ""));
  row("properties", properties_text(m, !probe.projection.empty()));
  row("cost", cost_text(name));
  row("from in_proj", columns_text(probe));
  row("learned", learned_text(probe));
  row("options", options_text(name));
  if (!m.published.empty()) row("as published", code(m.published));
  row("source", m.source);
  return text + "\n";
}

}  // namespace

std::string mixer_table() {
  std::vector<std::vector<std::string>> rows{{"mixer", "structure", "paper's cost", "cost", "slope",
                                              "with backward", "aligned", "paper", "extendable",
                                              "formula m_ij", "source"}};
  for (const auto& name : mixer_names()) {
    const auto& m = mixer_info(name);
    rows.push_back({m.name, m.matrix_class, paper_cost(m), m.cost, slope_text(name, "forward"),
                    slope_text(name, "forward_backward"), aligned_tick(m), paper_tick(m),
                    tick(m.extendable), m.formula, m.source});
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c + 1 < row.size(); ++c)
      text += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    text += row.back() + "\n";
  }
  const auto& measured = bench::measured_scaling();
  text += concat(
      "\npaper's cost: of the class of matrices in table 1.\nslope: of log time over log "
      "L, forward and with backward, measured on ",
      measured.machine, " at commit ", measured.commit,
      ".\naligned, extendable: by experiment (definition 2.2); paper: the tick of table "
      "1, for the methods that it names.\nyes*: ",
      kStar, ".\n");
  for (const auto& line : differences()) text += line + "\n";
  return text;
}

std::string mixers_page() {
  const auto& measured = bench::measured_scaling();
  std::string text =
      "# The mixers\n\nGenerated by `hydramix info mixers --markdown` from the registry; do not "
      "edit by hand. [math.md](math.md) has the exact matrices, scales and algorithms.\n\n";
  text += concat(
      "*Aligned* and *extendable* are decided by experiment on the paper's definition 2.2 "
      "(`tests/mixers/theory_test.cpp`); *paper* is the tick of its table 1, for the methods that "
      "it names, and *paper's cost* the complexity that it states for the class of matrices. "
      "`yes*` means ",
      kStar, ". *Slope* is that of log time over log L, forward and with backward, measured by `",
      measured.command, "` on ", measured.machine, " (commit `", measured.commit,
      "`); an empty cell was not measured.\n\n");
  text +=
      "| mixer | structure | paper's cost | cost | slope | aligned | paper | extendable | source "
      "|\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& name : mixer_names()) {
    const auto& m = mixer_info(name);
    const auto forward = slope_text(name, "forward"), both = slope_text(name, "forward_backward");
    text += concat("| [", name, "](#", name, ") | ", cell(m.matrix_class), " | ", paper_cost(m),
                   " | ", cell(m.cost), " | ", forward, both.empty() ? "" : "; " + both, " | ",
                   aligned_tick(m), " | ", paper_tick(m), " | ", tick(m.extendable), " | ",
                   cell(m.source), " |\n");
  }
  text += "\n";
  for (const auto& line : differences()) text += "- " + line + "\n";
  if (!differences().empty()) text += "\n";
  text +=
      "![Ranks of the blocks off the diagonal](ranks.svg)\n\n*Ranks of `M[i:, :i]` and `M[:i, "
      "i:]`, "
      "which define semiseparable and quasiseparable matrices: `hydramix matrix --ranks --all`.*"
      "\n\n## Each mixer\n\n";
  text += concat(
      "Pictures show matrices of 32 tokens with random weights and parameters. Widths of columns "
      "and "
      "shapes of weights are those for ",
      kProbeSizes,
      ". Options are those of `mixer_options` that change its weights or its "
      "result. *As published* lists the options of the block that come closest to the layer of the "
      "source, with sizes for a `d_model` of 768: `style=plain` is `model.block.style: plain` in a "
      "recipe. [math.md](math.md#published-layers) says what still differs.\n\n");
  for (const auto& name : mixer_names()) text += mixer_section(name);
  text.pop_back();
  return text;
}

}  // namespace hydramix
