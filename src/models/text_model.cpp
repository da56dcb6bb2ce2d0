// SPDX-License-Identifier: Apache-2.0
#include "models/text_model.h"

#include <algorithm>
#include <numeric>

#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "models/device.h"
#include "ops/graph.h"

namespace hydramix {
namespace {

// A larger batch takes the GPU longer than the host takes to launch it.
constexpr int64_t kMostGraphTokens = 4096;

// An Error where the tokenizer has more tokens than the encoder.
Tokenizer load_tokenizer_of(const std::filesystem::path& folder, const BertOptions& encoder) {
  auto tokenizer = load_model_tokenizer(folder);
  HYDRAMIX_CHECK(tokenizer.size() <= encoder.vocab, (folder / "tokenizer.json").string(), ": has ",
                 tokenizer.size(), " tokens, the model ", encoder.vocab,
                 ". They do not belong together: take both from one folder.");
  return tokenizer;
}

}  // namespace

TextModel::TextModel(BertForMaskedLM model, Tokenizer tokenizer, const TextModelOptions& options,
                     int64_t usual_length)
    : masked_lm_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  prepare(options, usual_length);
}

TextModel::TextModel(ClassifierFolder classifier, Tokenizer tokenizer,
                     const TextModelOptions& options, int64_t usual_length)
    : classifier_(std::move(classifier)), tokenizer_(std::move(tokenizer)) {
  prepare(options, usual_length);
}

std::shared_ptr<const TextModel> TextModel::open(const std::filesystem::path& folder,
                                                 const TextModelOptions& options,
                                                 int64_t usual_length) {
  if (is_classifier(folder)) {
    auto classifier = load_classifier(folder);
    auto tokenizer = load_tokenizer_of(folder, classifier.model->encoder_options());
    return std::make_shared<const TextModel>(std::move(classifier), std::move(tokenizer), options,
                                             usual_length);
  }
  auto model = load_model(folder);
  auto tokenizer = load_tokenizer_of(folder, model->options());
  return std::make_shared<const TextModel>(std::move(model), std::move(tokenizer), options,
                                           usual_length);
}

void TextModel::prepare(const TextModelOptions& options, int64_t usual_length) {
  HYDRAMIX_CHECK_USAGE(options.max_length == 0 || options.max_length >= 3, "max_length is ",
                       options.max_length,
                       "; [CLS] and two [SEP] alone need 3. Give 0 for what the model was trained "
                       "with.");
  HYDRAMIX_CHECK_USAGE(
      options.device == "auto" || options.device == "cpu" || options.device == "cuda",
      "device is '", options.device, "'; expected 'auto', 'cpu' or 'cuda'.");
  HYDRAMIX_CHECK_USAGE(options.batch_tokens >= 1, "batch_tokens is ", options.batch_tokens,
                       "; expected at least 1.");
  batch_tokens_ = options.batch_tokens;
  device_ = choose_device(options.device, 0);
  max_length_ = options.max_length;
  if (max_length_ == 0 && classifier_.model) max_length_ = classifier_.model->options().max_length;
  if (max_length_ == 0) max_length_ = usual_length;
  const int64_t longest = longest_sequence(encoder_options());
  if (longest > 0) max_length_ = max_length_ == 0 ? longest : std::min(max_length_, longest);

  torch::nn::Module& module = masked_lm_ ? static_cast<torch::nn::Module&>(*masked_lm_)
                                         : static_cast<torch::nn::Module&>(*classifier_.model);
  module.eval();
  module.to(device_);
  if (!options.for_serving || !can_capture(device_)) return;
  own_streams_ = true;
  BertEncoder encoder = this->encoder();
  encoder->set_precision(torch::kBFloat16);
  if (!GraphedEncoder::accepts(encoder_options())) return;
  graphs_ = std::make_unique<GraphedEncoder>(encoder, kMostGraphTokens);
  graphs_->capture_all();
}

const BertEncoder& TextModel::encoder() const {
  return masked_lm_ ? masked_lm_->encoder() : classifier_.model->encoder();
}

std::vector<Encoding> TextModel::encode_texts(
    std::size_t count, const std::function<Encoding(std::size_t, int64_t)>& encode_one) const {
  std::vector<Encoding> encodings;
  encodings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    try {
      encodings.push_back(encode_one(i, max_length_));
    } catch (const Error& error) {
      throw TextError(i, count, error.what());
    }
  }
  return encodings;
}

TextTokens TextModel::tokens_of(const Encoding& encoding,
                                const std::function<Encoding(int64_t)>& encode_one) const {
  TextTokens tokens;
  tokens.count = std::ssize(encoding.ids);
  tokens.unknown =
      std::count(encoding.ids.begin(), encoding.ids.end(), tokenizer_.special().unknown);
  tokens.cut = max_length_ > 0 && tokens.count == max_length_ &&
               std::ssize(encode_one(max_length_ + 1).ids) > max_length_;
  return tokens;
}

const torch::nn::Module& TextModel::module() const {
  if (masked_lm_) return *masked_lm_;
  return *classifier_.model;
}

bool TextModel::has_graph(const PackedBatch& batch) const {
  return graphs_ && batch.tokens <= kMostGraphTokens;
}

torch::Tensor TextModel::hidden(const PackedBatch& batch,
                                const std::function<void(const torch::Tensor&)>& observe) const {
  if (has_graph(batch) && !observe)
    return graphs_->encode(batch.ids, batch.type_ids, batch.layout.sequences(1, batch.tokens));
  return encoder()->encode(batch.ids, batch.type_ids, batch.layout, {}, observe);
}

void TextModel::for_each_batch(
    std::span<const Encoding> encodings,
    const std::function<void(std::span<const std::size_t>, const PackedBatch&)>& run) const {
  if (own_streams_) take_own_stream(device_);
  std::vector<std::size_t> order(encodings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return std::ssize(encodings[i].ids); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length(a) < length(b); });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    for (int64_t tokens = length(order[begin]); end < order.size(); ++end)
      if ((tokens += length(order[end])) > batch_tokens_) break;
    PackedIds packed;
    const auto texts = std::span(order).subspan(begin, end - begin);
    for (const auto i : texts) packed.add(encodings[i].ids, encodings[i].type_ids);
    const auto batch =
        masked_lm_ ? packed.batch(*masked_lm_, device_) : packed.batch(*classifier_.model, device_);
    // The graphs have one buffer for the hidden states, which run() reads.
    std::unique_lock<std::mutex> graphs_in_use;
    if (has_graph(batch)) graphs_in_use = std::unique_lock(graphs_in_use_);
    run(texts, batch);
    begin = end;
  }
}

}  // namespace hydramix
