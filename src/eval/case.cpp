// SPDX-License-Identifier: Apache-2.0
#include "eval/case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/quotes.h"
#include "eval/reference.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "models/size_check.h"
#include "ops/cosine.h"

namespace hydramix {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

// Settings of a run.
struct CaseRun {
  LoadOptions load;
  torch::TensorOptions where;  // dtype and device

  void move(torch::nn::Module& module) const {
    module.to(where.device(), where.dtype().toScalarType());
  }
};

std::string metadata(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  HYDRAMIX_CHECK(found != file.metadata.end(), file.path.string(), ": has no metadata '", key,
                 "', so it is not a case. docs/golden.md says what a case holds.");
  return found->second;
}

Tensors parameters(const TensorFile& file) {
  const std::string prefix = "param.";
  Tensors result;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), tensor);
  return result;
}

torch::Tensor input(const TensorFile& file, const std::string& name, int64_t dimensions,
                    bool integers, const CaseRun& run) {
  const auto& t = file.at(name);
  HYDRAMIX_CHECK(t.dim() == dimensions &&
                     (integers ? t.scalar_type() == torch::kInt64 : t.is_floating_point()),
                 file.path.string(), ": '", name, "' must be ",
                 integers ? "int64" : "floating point", " with ", dimensions, " dimensions; got ",
                 t.dtype(), " ", t.sizes(), ".");
  return integers ? t.to(run.where.device()) : t.to(run.where);
}

// Gradients of the weights in the convention of the file.
void collect_gradients(const torch::nn::Module& module, const LoadOptions& load,
                       Tensors& computed) {
  for (const auto& [name, weight] : named_weights(module)) {
    const auto gradient = weight.grad().defined() ? weight.grad() : torch::zeros_like(weight);
    computed["grad." + name] =
        is_rotated(name, load) ? to_reference_toeplitz_weights(gradient) : gradient;
  }
}

double numbers_in(const TensorFile& file) {
  double held = 0;
  for (const auto& [name, tensor] : parameters(file)) held += static_cast<double>(tensor.numel());
  return held;
}

Tensors run_block(const TensorFile& file, const BlockOptions& options, const CaseRun& run) {
  check_size(options, /*rows=*/0, /*layers=*/1, numbers_in(file), "the constructor");
  Block block(options);
  run.move(*block);
  load_weights(*block, parameters(file), run.load);
  const auto x = input(file, "x", 3, false, run).clone().requires_grad_();
  HYDRAMIX_CHECK(x.numel() > 0, "'x' is empty, ", x.sizes(), "; give at least one token.");
  const auto y = block->forward(x);
  Tensors computed{{"y", y.detach()}};
  if (file.has("dy")) {
    const auto dy = input(file, "dy", 3, false, run);
    HYDRAMIX_CHECK(dy.sizes() == y.sizes(), file.path.string(),
                   ": 'dy' must have the shape of the output, ", y.sizes(), "; got ", dy.sizes(),
                   ".");
    y.backward(dy);
    computed["grad.x"] = x.grad();
    collect_gradients(*block, run.load, computed);
  }
  if (file.has("aux.M"))
    computed["aux.M"] = block->materialize(x.detach().narrow(0, 0, 1)).detach()[0];
  if (file.has("buffer.matrix_mixer.dft_matrix")) {
    const int64_t n = options.mixer_options.max_length;
    HYDRAMIX_CHECK(
        file.at("buffer.matrix_mixer.dft_matrix").sizes() == (std::vector<int64_t>{n, n}),
        "'buffer.matrix_mixer.dft_matrix' must be (max_seq_len, max_seq_len) = (", n, ", ", n,
        ").");
    computed["buffer.matrix_mixer.dft_matrix"] =
        cosine_table(n, n, n, x.options().requires_grad(false));
  }
  return computed;
}

// The constructor of a mixer alone: its name and options. Its heads are those of x.
struct MixerCase {
  std::string mixer;
  MixerOptions options;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, Choices{mixer_names}, Required{}, "which mixer");
    MixerOptions::fields(self.options, v);
  }
};

Tensors run_mixer(const TensorFile& file, const nlohmann::json& arguments, const CaseRun& run) {
  MixerCase described;
  parse_yaml(described, arguments.dump(), "the constructor");
  const auto& options = described.options;
  constexpr double kHarmless = 1024;  // sizes that need little memory in any mixer
  const auto largest =
      static_cast<double>(std::max({options.d_state, options.qk_dim, options.max_length,
                                    options.filter_width, options.filter_features}));
  HYDRAMIX_CHECK(largest <= std::max(kHarmless, numbers_in(file)),
                 "the constructor describes a mixer of sizes up to ", largest,
                 ", but the file holds ", numbers_in(file),
                 " weights. Do its sizes belong to these weights?");
  const auto x = input(file, "x", 4, false, run).clone().requires_grad_();
  HYDRAMIX_CHECK(x.numel() > 0, "'x' is empty, ", x.sizes(), "; give at least one token.");
  const auto mixer = make_mixer(described.mixer, {.H = x.size(2), .P = x.size(3)}, options);
  run.move(*mixer);
  load_weights(*mixer, parameters(file), run.load);
  const bool reads_columns = mixer->projection_width() > 0;
  HYDRAMIX_CHECK(reads_columns || !file.has("params"), "mixer '", described.mixer,
                 "' reads no columns, but the file holds 'params'. Leave them out.");
  const auto params = reads_columns ? input(file, "params", 3, false, run).clone().requires_grad_()
                                    : torch::zeros({x.size(0), x.size(1), 0}, run.where);
  const auto derived = mixer->derive(params, x);
  const auto y = mixer->combine(mixer->mix(x, derived));
  Tensors computed{{"y", y.detach()}};
  if (file.has("dy")) {
    const auto dy = input(file, "dy", 4, false, run);
    HYDRAMIX_CHECK(dy.sizes() == y.sizes(), file.path.string(),
                   ": 'dy' must have the shape of the output, ", y.sizes(), "; got ", dy.sizes(),
                   ".");
    y.backward(dy);
    computed["grad.x"] = x.grad();
    if (reads_columns) computed["grad.params"] = params.grad();
    collect_gradients(*mixer, run.load, computed);
  }
  if (file.has("aux.M"))
    computed["aux.M"] = mixer->materialize(derived.detach().narrow(0, 0, 1), x.size(1)).detach()[0];
  return computed;
}

Tensors run_bert(const TensorFile& file, BertOptions options, const CaseRun& run) {
  const auto weights = parameters(file);
  options.pooler = weights.count("bert.pooler.dense.weight") != 0;
  check_size(options, numbers_in(file), "the constructor");
  BertForMaskedLM bert(options);
  run.move(*bert);
  load_weights(*bert, weights, run.load);
  const auto types =
      file.has("token_type_ids") ? input(file, "token_type_ids", 2, true, run) : torch::Tensor();
  const auto logits = bert->predict(bert->encode(input(file, "input_ids", 2, true, run), types));
  Tensors computed{{"logits", logits.detach()}};
  if (file.has("labels")) {
    const auto loss = BertForMaskedLMImpl::loss(logits, input(file, "labels", 2, true, run));
    loss.backward();
    computed["loss"] = loss.detach();
    collect_gradients(*bert, run.load, computed);
  }
  return computed;
}

Tensors compute_checked(const TensorFile& file, const CaseRun& run, const std::string& origin) {
  const auto module = metadata(file, "module");
  const auto arguments = parse_arguments(metadata(file, "constructor"), origin);
  const auto inner = file.metadata.find("mixer_constructor");
  const auto inner_arguments =
      parse_arguments(inner == file.metadata.end() ? "{}" : inner->second, origin);
  HYDRAMIX_CHECK(inner_arguments.is_object(), origin,
                 ": 'mixer_constructor' must be a JSON object.");
  for (const auto& [name, value] : inner_arguments.items())
    HYDRAMIX_CHECK(name == "is_dft", origin, ": unknown argument ", in_quotes(name),
                   " of 'mixer_constructor'; the only one is is_dft.");
  const auto dft = inner_arguments.value("is_dft", nlohmann::json(true));
  HYDRAMIX_CHECK(dft.is_boolean(), origin,
                 ": 'mixer_constructor' has an is_dft that is neither true nor false.");

  if (module == "Hydra") return run_block(file, reference_hydra(arguments, origin), run);
  if (module == "BertForMaskedLM")
    return run_bert(file, reference_bert(arguments, dft.get<bool>(), origin), run);
  if (module == "Mixer") return run_mixer(file, arguments, run);
  if (module == "Block") {
    BlockOptions options;
    parse_yaml(options, arguments.dump(), "the constructor");
    return run_block(file, options, run);
  }
  HYDRAMIX_CHECK(module == "MatrixMixer", origin, ": unknown module ", in_quotes(module),
                 "; expected Hydra, MatrixMixer, BertForMaskedLM, Block or Mixer.");
  return run_block(file, reference_matrix_mixer(arguments, dft.get<bool>(), origin), run);
}

// Any error is due to the file, not to the command line, so the message begins with the file's
// name.
Tensors compute(const TensorFile& file, const CaseRun& run) {
  const std::string origin = file.path.string();
  try {
    return compute_checked(file, run, origin);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(message.starts_with(origin) ? message : origin + ": " + message);
  }
}

// Whether a tensor of the file is an expected result.
bool is_expectation(const std::string& name) {
  return name == "y" || name == "loss" || name == "logits" || name == "aux.M" ||
         name.starts_with("grad.") || name.starts_with("buffer.");
}

double worst_error(const torch::Tensor& ours, const torch::Tensor& theirs) {
  if (ours.numel() == 0) return 0;
  const auto expected = theirs.to(torch::kFloat64);
  const double scale = expected.abs().max().item<double>();
  const double error =
      (ours.to(expected.options()) - expected).abs().max().item<double>() / (scale > 0 ? scale : 1);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

bool CaseReport::passed() const {
  return std::none_of(tensors.begin(), tensors.end(), [](const TensorReport& t) { return t.off; });
}

CaseReport run_case(const TensorFile& file, double tolerance, const LoadOptions& load,
                    const torch::TensorOptions& where) {
  CaseReport report;
  report.module = metadata(file, "module");
  report.computed = compute(file, {load, where});
  const auto name = file.metadata.find("case");
  report.name = name == file.metadata.end() ? file.path.stem().string() : name->second;

  for (const auto& [key, tensor] : file.tensors)
    HYDRAMIX_CHECK(!is_expectation(key) || report.computed.count(key) != 0, file.path.string(),
                   ": holds ", in_quotes(key), ", which ", report.module,
                   " does not compute from the other tensors of the file.");
  for (const auto& [key, ours] : report.computed) {
    TensorReport tensor{.name = key, .compared = file.has(key)};
    if (tensor.compared) {
      const auto& theirs = file.at(key);
      HYDRAMIX_CHECK(theirs.sizes() == ours.sizes(), file.path.string(), ": '", key, "' has shape ",
                     theirs.sizes(), " but ", report.module, " gives ", ours.sizes(), ".");
      tensor.error = worst_error(ours, theirs);
      tensor.off = !(tensor.error <= tolerance);
    }
    report.tensors.push_back(tensor);
  }
  return report;
}

}  // namespace hydramix
