// SPDX-License-Identifier: Apache-2.0
#include "python/called_module.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/sequence_classifier.h"
#include "models/encoder_parts.h"
#include "python/token_places.h"
#include "train/captured_steps.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;
using torch::Tensor;

// Sequences are numbered in the order of the batch.
DropoutKey dropout_key(const ModuleCall& call, const TokenPlaces& places) {
  if (!call.seed.defined()) return {};
  const auto sequences = places.layout().sequences(call.input.size(0), call.input.size(1));
  return {call.seed.item<int64_t>(), torch::arange(sequences.count(), torch::kInt64)};
}

[[noreturn]] void refuse_method(const ModuleCall& call, const char* kind) {
  throw UsageError(concat("a module of kind ", kind, " has no method '", call.method, "'."));
}

template <class Options>
Options section_of(const Json& spec, const char* key) {
  HYDRAMIX_CHECK_USAGE(spec.contains(key), "the spec of a module has no key '", key, "'.");
  Options options;
  parse_yaml(options, spec[key].dump(), "options");
  return options;
}

class CalledBlock : public CalledModule {
 public:
  explicit CalledBlock(const BlockOptions& options) : block_(options) {}
  torch::nn::Module& module() override { return *block_; }

  Tensor call(const ModuleCall& call) override {
    const TokenPlaces places(call.input, call.mask, call.cu_seqlens);
    const auto u = places.gathered(call.input);
    if (call.method == "materialize") return block_->materialize(u, places.layout());
    if (call.method != "forward") refuse_method(call, "block");
    return places.restored(block_->forward(u, places.layout(), dropout_key(call, places)));
  }

  bool can_be_captured(torch::Device device) const override {
    return hydramix::can_be_captured(block_->options(), device);
  }

 private:
  Block block_;
};

class CalledEncoder : public CalledModule {
 public:
  explicit CalledEncoder(const BertOptions& options) : encoder_(options) {
    initialize_as_bert(*encoder_, {options.initial_deviation, options.initial_distribution});
  }
  torch::nn::Module& module() override { return *encoder_; }

  Tensor call(const ModuleCall& call) override {
    if (call.method != "forward") refuse_method(call, "encoder");
    return encode(*encoder_, call);
  }

  // Any model with encode() and set_precision() -> hidden states (B, L, d_model).
  template <class Model>
  static Tensor encode(Model& model, const ModuleCall& call) {
    const TokenPlaces places(call.input, call.mask, call.cu_seqlens);
    model.set_precision(call.bfloat16 ? torch::kBFloat16 : torch::kFloat32);
    return places.restored(model.encode(places.gathered(call.input), places.gathered(call.types),
                                        places.layout(), dropout_key(call, places)));
  }

 private:
  BertEncoder encoder_;
};

class CalledMaskedLM : public CalledModule {
 public:
  explicit CalledMaskedLM(const BertOptions& options) : model_(options) {}
  torch::nn::Module& module() override { return *model_; }

  Tensor call(const ModuleCall& call) override {
    const auto hidden = CalledEncoder::encode(*model_, call);
    if (call.method == "forward") return model_->predict(hidden);
    if (call.method != "loss") refuse_method(call, "masked_lm");
    const auto labels = call.labels.flatten();
    const auto positions = (labels != kNoLabel).nonzero().squeeze(1);
    const auto loss = model_->masked_loss(hidden, positions, labels.index_select(0, positions));
    return (loss.sum / std::max<int64_t>(positions.numel(), 1)).to(torch::kFloat32);
  }

 private:
  BertForMaskedLM model_;
};

class CalledClassifier : public CalledModule {
 public:
  CalledClassifier(const BertOptions& encoder, const ClassifierOptions& options)
      : model_(encoder, options) {}
  torch::nn::Module& module() override { return *model_; }

  Tensor call(const ModuleCall& call) override {
    if (call.method != "forward") refuse_method(call, "classifier");
    const TokenPlaces places(call.input, call.mask, call.cu_seqlens);
    model_->set_precision(call.bfloat16 ? torch::kBFloat16 : torch::kFloat32);
    auto rows = model_->forward(places.gathered(call.input), places.gathered(call.types),
                                places.layout(), dropout_key(call, places));
    const int64_t B = call.input.size(0), L = call.input.size(1);
    if (model_->options().pooling == "tokens") {
      if (rows.size(0) == B * L) return places.restored(rows.view({B, L, rows.size(1)}));
      return places.restored(places.layout().from_tokens(rows.unsqueeze(0)));
    }
    const int64_t expected = call.cu_seqlens.defined() ? call.cu_seqlens.numel() - 1 : B;
    HYDRAMIX_CHECK_USAGE(rows.size(0) == expected, "classifier: ", expected - rows.size(0),
                         " of the ", expected,
                         " sequences have no token. Leave them out, or give them at least [CLS].");
    return rows;
  }

 private:
  SequenceClassifier model_;
};

}  // namespace

std::unique_ptr<CalledModule> make_called_module(const std::string& text) {
  const auto spec = try_parse_json(text);
  HYDRAMIX_CHECK_USAGE(spec.is_object() && spec.contains("kind"),
                       "the spec of a module is a JSON object with the key 'kind'; got ",
                       clipped(text, 80), ".");
  const auto& kind = spec["kind"];
  if (kind == "block")
    return std::make_unique<CalledBlock>(section_of<BlockOptions>(spec, "block"));
  if (kind == "encoder")
    return std::make_unique<CalledEncoder>(section_of<BertOptions>(spec, "model"));
  if (kind == "masked_lm")
    return std::make_unique<CalledMaskedLM>(section_of<BertOptions>(spec, "model"));
  HYDRAMIX_CHECK_USAGE(kind == "classifier",
                       "the kind of a module is block, encoder, masked_lm or classifier; got ",
                       clipped(kind.dump(), 80), ".");
  return std::make_unique<CalledClassifier>(section_of<BertOptions>(spec, "model"),
                                            section_of<ClassifierOptions>(spec, "classifier"));
}

std::string default_spec(const std::string& kind) {
  Json spec;
  if (kind == "block")
    spec["block"] = to_json(BlockOptions());
  else
    spec["model"] = to_json(BertOptions());
  if (kind == "classifier") spec["classifier"] = to_json(ClassifierOptions());
  return spec.dump();
}

}  // namespace hydramix
