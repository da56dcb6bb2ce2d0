// SPDX-License-Identifier: Apache-2.0
#include "cli/mixer_probe.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr Heads kHeads{2, 4};

MixerOptions probe_options() {
  MixerOptions options;
  options.qk_dim = 3;
  options.d_state = 5;
  options.max_length = 7;
  return options;
}

// Everything that an option can change, of a mixer made from one seed.
struct Observed {
  std::vector<std::pair<std::string, torch::Tensor>> weights;
  std::vector<std::string> columns;
  torch::Tensor y;

  bool operator==(const Observed& other) const {
    if (columns != other.columns || weights.size() != other.weights.size()) return false;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (weights[i].first != other.weights[i].first ||
          !same(weights[i].second, other.weights[i].second))
        return false;
    return same(y, other.y);
  }

 private:
  // Equal up to the rounding of another order of operations.
  static bool same(const torch::Tensor& a, const torch::Tensor& b) {
    return a.sizes() == b.sizes() && torch::allclose(a, b, 1e-9, 1e-12);
  }
};

Observed observe(const std::string& name, const MixerOptions& options) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  const auto mixer = make_mixer(name, kHeads, options);
  mixer->to(torch::kFloat64);
  mixer->eval();
  Observed seen;
  for (const auto& p : mixer->named_parameters())
    seen.weights.emplace_back(p.key(), p.value().detach());
  for (const auto& c : mixer->projection())
    seen.columns.push_back(concat(c.name, " ", c.width, " ", c.conv, " ", c.silu));
  constexpr int64_t kLength = 6;
  torch::manual_seed(2);
  const auto x = torch::randn({1, kLength, kHeads.H, kHeads.P}, torch::kFloat64);
  const auto params = torch::randn({1, kLength, mixer->params_width()}, torch::kFloat64);
  seen.y = mixer->mix(x, params);
  const auto response = mixer->initial_response(params);
  if (response.defined()) seen.y = torch::cat({seen.y, response}, 1);
  return seen;
}

// Other values to try.
std::vector<std::string> alternatives(const Field& field) {
  if (const auto* flag = std::get_if<bool*>(&field.storage)) return {**flag ? "false" : "true"};
  if (const auto* integer = std::get_if<int64_t*>(&field.storage))
    return {std::to_string(2 * **integer), std::to_string(**integer + 1),
            std::to_string(**integer + 2),   // where only odd numbers are allowed
            std::to_string(**integer / 4)};  // where all values above the length are equal
  if (const auto* real = std::get_if<double*>(&field.storage))
    return {std::to_string(0.5 * **real), "0.01", "0.5", "3"};
  if (std::holds_alternative<std::string*>(field.storage) && field.choices)
    return field.choices->names();
  return {};
}

bool changes(const std::string& name, const std::string& assignment, const Observed& usual) {
  auto options = probe_options();
  try {
    set(options, assignment);
    return !(observe(name, options) == usual);
  } catch (const Error&) {
    return false;  // not a value for this mixer
  }
}

}  // namespace

MixerProbe probe_mixer(const std::string& name) {
  const auto mixer = make_mixer(name, kHeads, probe_options());
  MixerProbe probe{mixer->branches(), mixer->projection(), {}};
  for (const auto& p : mixer->named_parameters())
    probe.learned.emplace_back(p.key(), p.value().sizes().vec());
  return probe;
}

std::vector<std::string> options_read(const std::string& name) {
  const auto usual = observe(name, probe_options());
  auto options = probe_options();
  std::vector<std::string> read;
  for (const auto& field : fields_of(options)) {
    const auto values = alternatives(field);
    const bool dropout = field.path == "dropout" && mixer_info(name).dropout;  // in training only
    if (dropout || std::any_of(values.begin(), values.end(), [&](const std::string& value) {
          return changes(name, concat(field.path, "=", value), usual);
        }))
      read.push_back(field.path);
  }
  return read;
}

}  // namespace hydramix
