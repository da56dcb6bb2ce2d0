// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_embedder.h"

#include "models/encoded_texts.h"
#include "models/text_model.h"
#include "models/unit_length.h"

namespace hydramix {

TextEmbedder::TextEmbedder(std::shared_ptr<const TextModel> model, const Options& options)
    : model_(std::move(model)), options_(options) {
  const auto& classifier = model_->classifier().model;
  if (options_.pooling.empty())  // a tagger has none
    options_.pooling = classifier && classifier->options().pooling == "cls" ? "cls" : "mean";
  HYDRAMIX_CHECK_USAGE(options_.pooling == "cls" || options_.pooling == "mean", "pooling is '",
                       options_.pooling, "'; expected 'cls' or 'mean'.");
}

TextEmbedder TextEmbedder::open(const std::filesystem::path& folder, const Options& options) {
  return {TextModel::open(folder, options.model, kEmbeddedLength), options};
}

std::vector<TextEmbedder::Embedding> TextEmbedder::embed(std::span<const std::string> texts) const {
  const auto encode_one = [&](std::size_t i, int64_t max_length) {
    return model_->tokenizer().encode(texts[i], max_length);
  };
  const auto encodings = model_->encode_texts(texts.size(), encode_one);
  auto vectors = text_vectors(*model_, encodings, options_.pooling);
  std::vector<Embedding> results(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (options_.normalize) scale_to_unit_length(vectors[i]);
    results[i].vector = std::move(vectors[i]);
    results[i].tokens = model_->tokens_of(
        encodings[i], [&](int64_t max_length) { return encode_one(i, max_length); });
  }
  return results;
}

std::vector<float> TextEmbedder::embed(const std::string& text) const {
  return embed(std::span(&text, 1)).front().vector;
}

int64_t TextEmbedder::width() const { return model_->encoder_options().block.d_model; }
int64_t TextEmbedder::max_length() const { return model_->max_length(); }

}  // namespace hydramix
