// SPDX-License-Identifier: Apache-2.0
// Inference of the whole encoder (23 layers, 112 M parameters by default) against the matrix
// products of its blocks alone: gemm_share is the share of the tokens/s that they would allow.
#include <map>

#include "base/formatted.h"
#include "bench/suite.h"
#include "hydramix/bert.h"

namespace hydramix::bench {
namespace {

torch::Tensor random_ids(const Subject& subject, const BertForMaskedLM& model) {
  return torch::randint(model->options().vocab, {subject.batch, subject.length}, torch::kInt64);
}

Function outputs_of(const BertForMaskedLM& model, const torch::Tensor& ids) {
  Function f;
  f.forward = [model, ids] { return std::vector<torch::Tensor>{model->encode(ids, {})}; };
  return f;
}

Function encoder(const BertForMaskedLM& model, const torch::Tensor& ids) {
  Function f = outputs_of(model, ids);
  // Reads only a few rows of the embeddings, and nothing of the masked-LM head.
  for (const auto& weight : model->named_parameters())
    if (weight.key().starts_with("bert.encoder."))
      f.inputs.emplace_back(weight.key(), weight.value());
  f.output_entries = ids.numel() * model->options().block.d_model;
  return f;
}

// Uses each layer's own weights, so that they come from memory as in the model.
Function encoder_gemms(const BertForMaskedLM& model, const Subject& subject) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> layers;
  std::map<int64_t, torch::Tensor> inputs;  // one for each width
  for (const auto& weight : model->named_parameters()) {
    if (!weight.key().ends_with("in_proj.weight") && !weight.key().ends_with("out_proj.weight"))
      continue;
    const int64_t width = weight.value().size(1);
    auto& input = inputs[width];
    if (!input.defined()) input = torch::randn({subject.batch, subject.length, width});
    layers.emplace_back(input, weight.value());
  }
  return matrix_products(layers);
}

void model_step(Bench& bench, const Subject& subject) {
  const Options& o = bench.options;
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  BertOptions options;
  options.layers = o.layers;
  options.block = block_options(o);
  const BertForMaskedLM model(options);
  Comparison c;
  c.subject = subject;
  c.subject.name = formatted("%s_%lld_layers", options.block.mixer, o.layers);
  c.forward_backward = false;

  const auto ids = random_ids(to_verify(subject, o), model);
  {
    torch::NoGradGuard no_grad;
    c.error = verify("encoder, " + title(to_verify(subject, o)), outputs_of(model, ids),
                     outputs_of(in_float64(model), ids), o.tolerance);
  }
  c.work = encoder(model, random_ids(subject, model));
  c.gemms = encoder_gemms(model, subject);
  c.work.flops = c.gemms.flops;
  int64_t parameters = 0;
  for (const auto& weight : model->parameters()) parameters += weight.numel();
  for (auto& m : measure(bench, c)) {
    m.extra = {{"gemm_share", m.gemm_ms / m.ms}, {"parameters", static_cast<double>(parameters)}};
    bench.report.measured(m);
  }
}

}  // namespace

std::vector<Step> model_suite(const Options& options) {
  Options usual = options;
  usual.lengths = lengths_or(options, {512});
  std::vector<Step> steps;
  for (const Subject& subject : subjects(usual, "model", /*with_packed=*/false))
    steps.push_back({title(subject), [subject](Bench& bench) { model_step(bench, subject); }});
  return steps;
}

}  // namespace hydramix::bench
