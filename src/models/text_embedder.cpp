// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_embedder.h"

#include <cmath>

#include "models/pooling.h"
#include "models/text_model.h"

namespace hydramix {
namespace {

// In float64, so that the length is 1 up to the rounding of the entries. False where the vector is
// not finite.
bool finish(std::vector<float>& vector, bool normalize) {
  double squares = 0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  if (!std::isfinite(squares)) return false;
  if (normalize && squares > 0)
    for (float& value : vector) value = static_cast<float>(value / std::sqrt(squares));
  return true;
}

}  // namespace

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
  const torch::NoGradGuard no_grad;
  const auto encode_one = [&](std::size_t i, int64_t max_length) {
    return model_->tokenizer().encode(texts[i], max_length);
  };
  const auto encodings = model_->encode_texts(texts.size(), encode_one);
  std::vector<Embedding> results(texts.size());
  model_->for_each_batch(encodings, [&](std::span<const std::size_t> some,
                                        const PackedBatch& batch) {
    const auto rows = pooled(model_->hidden(batch), batch.layout, options_.pooling)
                          .to(torch::kCPU, torch::kFloat32)
                          .contiguous();
    for (std::size_t k = 0; k < some.size(); ++k) {
      const std::size_t i = some[k];
      const float* row = rows.data_ptr<float>() + static_cast<int64_t>(k) * width();
      results[i].vector.assign(row, row + width());
      results[i].tokens = model_->tokens_of(
          encodings[i], [&](int64_t max_length) { return encode_one(i, max_length); });
      if (!finish(results[i].vector, options_.normalize))
        throw TextError(i, texts.size(),
                        "its vector is not finite. The model's weights are damaged or diverged in "
                        "training: take an earlier checkpoint.");
    }
  });
  return results;
}

std::vector<float> TextEmbedder::embed(const std::string& text) const {
  return embed(std::span(&text, 1)).front().vector;
}

int64_t TextEmbedder::width() const { return model_->encoder_options().block.d_model; }
int64_t TextEmbedder::max_length() const { return model_->max_length(); }

}  // namespace hydramix
