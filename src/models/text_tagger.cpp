// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_tagger.h"

#include <cmath>

#include "models/text_model.h"
#include "models/word_pieces.h"

namespace hydramix {
namespace {

constexpr int64_t kUsualTaggedLength = 256;  // for a model that does not state its training length

}  // namespace

TextTagger::TextTagger(std::shared_ptr<const TextModel> model) : model_(std::move(model)) {}

TextTagger TextTagger::open(const std::filesystem::path& folder, const TextModelOptions& options) {
  if (!is_classifier(folder)) load_classifier(folder);  // throws, naming what the folder is
  TextTagger opened(TextModel::open(folder, options, kUsualTaggedLength));
  const auto& kind = opened.model_->classifier().kind;
  HYDRAMIX_CHECK(kind == "tokens", folder.string(), ": was trained for ", kind,
                 ", not for tags of words. Train one with hydramix finetune --task tokens, or open "
                 "this one as a TextClassifier.");
  return opened;
}

std::vector<std::vector<TextTagger::Tag>> TextTagger::tag(std::span<const Words> sentences) const {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<int64_t>> places(sentences.size());
  const auto encodings =
      model_->encode_texts(sentences.size(), [&](std::size_t i, int64_t max_length) {
        auto pieces = word_pieces(sentences[i], model_->tokenizer(), max_length);
        places[i] = std::move(pieces.places);
        Encoding encoding;
        encoding.type_ids.assign(pieces.ids.size(), 0);
        encoding.ids = std::move(pieces.ids);
        return encoding;
      });
  std::vector<std::vector<Tag>> tagged(sentences.size());
  model_->for_each_batch(encodings, [&](std::span<const std::size_t> some,
                                        const PackedBatch& batch) {
    const auto shares = model_->classifier()
                            .model->forward(batch.ids, batch.type_ids, batch.layout)
                            .to(torch::kCPU, torch::kFloat64)
                            .softmax(1);
    const auto [best, numbers] = shares.max(1);
    const auto probability = best.accessor<double, 1>();
    const auto number = numbers.accessor<int64_t, 1>();
    int64_t first = 0;  // row of the sentence's first token
    for (const std::size_t i : some) {
      for (const int64_t place : places[i]) {
        Tag tag;
        if (place >= 0) {
          tag.probability = probability[first + place];
          tag.tag = tags()[static_cast<std::size_t>(number[first + place])];
          if (!std::isfinite(tag.probability))
            throw TextError(i, sentences.size(),
                            "its answer is not finite. The model's weights are damaged or diverged "
                            "in training: take an earlier checkpoint.");
        }
        tagged[i].push_back(tag);
      }
      first += std::ssize(encodings[i].ids);
    }
  });
  return tagged;
}

std::vector<TextTagger::Tag> TextTagger::tag(const Words& sentence) const {
  return tag(std::span(&sentence, 1)).front();
}

const std::vector<std::string>& TextTagger::tags() const { return model_->classifier().labels; }
int64_t TextTagger::max_length() const { return model_->max_length(); }

}  // namespace hydramix
