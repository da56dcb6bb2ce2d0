// SPDX-License-Identifier: Apache-2.0
#include "hydramix/fill_mask.h"

#include <algorithm>
#include <cmath>

#include "models/text_model.h"

namespace hydramix {
namespace {

// Places whose logits exist at once: 16 MB for a vocabulary of 30 522.
constexpr int64_t kLogitRows = 128;

struct MaskedPlace {
  int64_t place;      // among the tokens of the batch
  std::size_t text;   // its number
  std::size_t order;  // among the masks of the text
};

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
  const torch::NoGradGuard no_grad;
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

  // The head, on some masked places of a batch. Rows of the embedding beyond the tokenizer's size
  // are not words.
  const auto fill_places = [&](const torch::Tensor& hidden, std::span<const MaskedPlace> places) {
    std::vector<int64_t> rows;
    for (const auto& masked : places) rows.push_back(masked.place);
    const auto index = torch::tensor(rows, torch::kInt64).to(hidden.device());
    const auto probabilities = model_->masked_lm()
                                   ->predict(hidden.index_select(0, index))
                                   .narrow(1, 0, tokenizer.size())
                                   .to(torch::kFloat32)
                                   .softmax(1);
    const auto [values, words] = probabilities.topk(std::min(top, tokenizer.size()), 1);
    const auto shares = values.to(torch::kCPU, torch::kFloat64).contiguous();
    const auto ids = words.to(torch::kCPU).contiguous();
    const int64_t width = shares.size(1);
    for (std::size_t k = 0; k < places.size(); ++k) {
      const auto& [place, text, order] = places[k];
      const int64_t row = static_cast<int64_t>(k) * width;
      for (int64_t c = row; c < row + width; ++c) {
        const double probability = shares.data_ptr<double>()[c];
        if (!std::isfinite(probability))
          throw TextError(text, texts.size(),
                          "its probabilities are not finite. The model's weights are damaged or "
                          "diverged in training: take an earlier checkpoint.");
        const auto id = static_cast<int32_t>(ids.data_ptr<int64_t>()[c]);
        answers[text].masks[order].push_back({tokenizer.token(id), id, probability});
      }
    }
  };

  model_->for_each_batch(
      encodings, [&](std::span<const std::size_t> some, const PackedBatch& batch) {
        std::vector<MaskedPlace> places;
        int64_t place = 0;
        for (const auto text : some) {
          std::size_t order = 0;
          for (const auto id : encodings[text].ids) {
            if (id == mask) places.push_back({place, text, order++});
            ++place;
          }
        }
        const auto hidden = model_->hidden(batch)[0];
        for (std::size_t begin = 0; begin < places.size(); begin += kLogitRows)
          fill_places(hidden, std::span(places).subspan(
                                  begin, std::min<std::size_t>(kLogitRows, places.size() - begin)));
      });
  return answers;
}

FillMask::Answer FillMask::fill(const std::string& text, int64_t top) const {
  return fill(std::span(&text, 1), top).front();
}

int64_t FillMask::max_length() const { return model_->max_length(); }

}  // namespace hydramix
