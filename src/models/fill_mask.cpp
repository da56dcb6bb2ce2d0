// SPDX-License-Identifier: Apache-2.0
#include "hydramix/fill_mask.h"

#include <algorithm>

#include "models/encoded_texts.h"
#include "models/text_model.h"

namespace hydramix {
namespace {

int64_t count_masks(const Encoding& encoding, int32_t mask) {
  return std::count(encoding.ids.begin(), encoding.ids.end(), mask);
}

}  // namespace

FillMask::FillMask(std::shared_ptr<const TextModel> model) : model_(std::move(model)) {}

FillMask FillMask::open(const std::filesystem::path& folder, const TextModelOptions& options) {
  if (is_classifier(folder)) load_model(folder);  // throws, naming what the folder is
  return FillMask(TextModel::open(folder, options, 0));
}

std::vector<FillMask::Answer> FillMask::fill(std::span<const std::string> texts,
                                             int64_t top) const {
  HYDRAMIX_CHECK_USAGE(top >= 1, "fill: top is ", top, "; expected at least 1 word.");
  const auto& tokenizer = model_->tokenizer();
  const int32_t mask = tokenizer.special().mask;
  const auto encode_one = [&](std::size_t i, int64_t max_length) {
    return tokenizer.encode(texts[i], max_length);
  };
  const auto encodings = model_->encode_texts(texts.size(), encode_one);
  std::vector<Answer> answers(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto& answer = answers[i];
    answer.tokens = model_->tokens_of(encodings[i], [&](int64_t n) { return encode_one(i, n); });
    answer.masks.resize(static_cast<std::size_t>(count_masks(encodings[i], mask)));
    if (answer.tokens.cut && count_masks(encode_one(i, 0), mask) > std::ssize(answer.masks))
      throw TextError(i, texts.size(),
                      concat("a [MASK] lies after the first ", model_->max_length(),
                             " tokens, where the text is cut. Shorten the text."));
    if (answer.masks.empty())
      throw TextError(i, texts.size(), "has no [MASK]. Write it where a word is asked for.");
  }
  auto words = mask_words(*model_, encodings, top);
  for (std::size_t i = 0; i < texts.size(); ++i) answers[i].masks = std::move(words[i]);
  return answers;
}

FillMask::Answer FillMask::fill(const std::string& text, int64_t top) const {
  return fill(std::span(&text, 1), top).front();
}

int64_t FillMask::max_length() const { return model_->max_length(); }

}  // namespace hydramix
