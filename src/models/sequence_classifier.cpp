// SPDX-License-Identifier: Apache-2.0
#include "hydramix/sequence_classifier.h"

#include <algorithm>

#include "hydramix/bert.h"
#include "hydramix/error.h"
#include "hydramix/weights.h"
#include "models/encoder_parts.h"
#include "models/pooling.h"
#include "ops/dropout.h"
#include "ops/projection.h"

namespace hydramix {
namespace {

constexpr const char* kTokens = "tokens";

BertOptions encoder_of(BertOptions options, const ClassifierOptions& classifier) {
  options.pooler = classifier.outputs > 0 && classifier.pooling != kTokens;
  return options;
}

// The options that determine what the encoder computes: all but those of training, initialisation
// and memory use, and max_length, which the shapes of the weights determine where it matters.
nlohmann::ordered_json function_of(BertOptions options) {
  const BertOptions usual;
  options.pooler = usual.pooler;
  options.dropout = usual.dropout;
  options.output_dropout = usual.output_dropout;
  options.recompute = usual.recompute;
  options.initial_deviation = usual.initial_deviation;
  options.initial_distribution = usual.initial_distribution;
  auto& mixer = options.block.mixer_options;
  const auto& usual_mixer = usual.block.mixer_options;
  mixer.max_length = usual_mixer.max_length;
  mixer.dt_min = usual_mixer.dt_min;
  mixer.dt_max = usual_mixer.dt_max;
  mixer.dt_init_floor = usual_mixer.dt_init_floor;
  mixer.tile = usual_mixer.tile;
  mixer.dropout = usual_mixer.dropout;
  return to_json(options);
}

void check_same_function(const BertOptions& theirs, const BertOptions& ours) {
  const auto a = function_of(theirs).flatten(), b = function_of(ours).flatten();
  for (const auto& [place, value] : a.items()) {
    if (b.at(place) == value) continue;
    std::string key = place.substr(1);  // from "/block/mixer"
    std::replace(key.begin(), key.end(), '/', '.');
    throw Error(concat("take_encoder: the pretrained encoder has ", key, " = ", value.dump(),
                       ", this classifier ", b.at(place).dump(),
                       ". Make the classifier with the options of the pretrained model."));
  }
}

}  // namespace

SequenceClassifierImpl::SequenceClassifierImpl(const BertOptions& encoder,
                                               const ClassifierOptions& options)
    : options_(options) {
  validate(options);
  HYDRAMIX_CHECK_USAGE(options.outputs > 0 || options.pooling != kTokens,
                       "classifier: pooling is tokens and outputs is 0; expected outputs for each "
                       "token, or pooling cls or mean for vectors.");
  bert = register_module("bert", BertEncoder(encoder_of(encoder, options)));
  if (options.outputs > 0)
    classifier =
        register_module("classifier", torch::nn::Linear(encoder.block.d_model, options.outputs));
  initialize_as_bert(*this, {encoder.initial_deviation, encoder.initial_distribution});
}

torch::Tensor SequenceClassifierImpl::dropped(const torch::Tensor& x, const Sequences& sequences,
                                              const DropoutKey& key) const {
  if (!is_training() || options_.dropout == 0) return x;
  check_key("bert", key, sequences.count(), options_.dropout);
  auto numbers = key.sequences.to(x.device());
  // Positions below 0 are not a token's, so this mask differs from those of the embedding.
  auto places = torch::full_like(numbers, -1);
  if (options_.pooling == kTokens) {  // -1, -2, ... in each sequence
    const auto offsets = torch::tensor(sequences.offsets(), torch::kInt64).to(x.device());
    const auto lengths = offsets.diff();
    const auto starts = offsets.narrow(0, 0, sequences.count()).repeat_interleave(lengths);
    numbers = numbers.repeat_interleave(lengths);
    places = starts - torch::arange(x.size(0), starts.options()) - 1;
  }
  const auto mask = keep_mask({key.seed, numbers, places}, x.size(1), options_.dropout);
  return x * mask.to(x.scalar_type()).mul_(1 / (1 - options_.dropout));
}

torch::Tensor SequenceClassifierImpl::forward(const torch::Tensor& ids,
                                              const torch::Tensor& type_ids, const Layout& layout,
                                              const DropoutKey& dropout) const {
  return predict(bert->encode(ids, type_ids, layout, dropout), layout, dropout);
}

torch::Tensor SequenceClassifierImpl::predict(const torch::Tensor& hidden, const Layout& layout,
                                              const DropoutKey& dropout) const {
  auto rows = options_.pooling == kTokens ? layout.to_tokens(hidden).flatten(0, 1)
                                          : pooled(hidden, layout, options_.pooling);
  // The last layers are always in float32: one row per sequence costs little, and a bfloat16 score
  // would have two digits.
  if (!encoder_options().pooler && rows.scalar_type() == torch::kBFloat16)
    rows = rows.to(torch::kFloat32);
  if (options_.outputs == 0) return rows;
  if (encoder_options().pooler) rows = bert->pool(rows);
  const auto sequences = layout.sequences(hidden.size(0), hidden.size(1));
  return project(dropped(rows, sequences, dropout), classifier->weight, classifier->bias);
}

void SequenceClassifierImpl::rescale(double scale, double shift) {
  const torch::NoGradGuard no_grad;
  classifier->weight.mul_(scale);
  classifier->bias.mul_(scale).add_(shift);
}

void SequenceClassifierImpl::take_encoder(const torch::nn::Module& pretrained) {
  if (const auto* model = pretrained.as<BertForMaskedLMImpl>())
    check_same_function(model->options(), encoder_options());
  else if (const auto* other = pretrained.as<SequenceClassifierImpl>())
    check_same_function(other->encoder_options(), encoder_options());
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, weight] : named_weights(*this))  // kept if the other has none
    if (name.starts_with("classifier.") || name.starts_with("bert.pooler."))
      weights.emplace(name, weight);
  for (const auto& [name, weight] : named_weights(pretrained))
    if (name.starts_with("bert.") &&
        (encoder_options().pooler || !name.starts_with("bert.pooler.")))
      weights.insert_or_assign(name, weight);
  load_weights(*this, weights);
}

}  // namespace hydramix
