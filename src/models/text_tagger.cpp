// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_tagger.h"

#include <algorithm>

#include "models/encoded_texts.h"
#include "models/text_model.h"
#include "models/word_pieces.h"

namespace hydramix {

TextTagger::TextTagger(std::shared_ptr<const TextModel> model) : model_(std::move(model)) {}

TextTagger TextTagger::open(const std::filesystem::path& folder, const TextModelOptions& options) {
  if (!is_classifier(folder)) load_classifier(folder);  // throws, naming what the folder is
  TextTagger opened(TextModel::open(folder, options, kUsualClassifierLength));
  const auto& kind = opened.model_->classifier().kind;
  HYDRAMIX_CHECK(kind == "tokens", folder.string(), ": was trained for ", kind,
                 ", not for tags of words. Train one with hydramix finetune --task tokens, or open "
                 "this one as a TextClassifier.");
  return opened;
}

std::vector<std::vector<TextTagger::Tag>> TextTagger::tag(std::span<const Words> sentences) const {
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
  const auto outputs = text_outputs(*model_, encodings);
  std::vector<std::vector<Tag>> tagged(sentences.size());
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto shares = label_shares(outputs[i], model_->classifier());
    for (const int64_t place : places[i]) {
      Tag tag;
      if (place >= 0) {
        const auto row = std::span(shares).subspan(static_cast<std::size_t>(place) * tags().size(),
                                                   tags().size());
        const auto best = std::max_element(row.begin(), row.end());
        tag = {tags()[static_cast<std::size_t>(best - row.begin())], *best};
      }
      tagged[i].push_back(tag);
    }
  }
  return tagged;
}

std::vector<TextTagger::Tag> TextTagger::tag(const Words& sentence) const {
  return tag(std::span(&sentence, 1)).front();
}

const std::vector<std::string>& TextTagger::tags() const { return model_->classifier().labels; }
int64_t TextTagger::max_length() const { return model_->max_length(); }

}  // namespace hydramix
