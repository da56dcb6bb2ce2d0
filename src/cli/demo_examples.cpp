// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_examples.h"

#include <algorithm>

#include "hydramix/error.h"
#include "language/language_documents.h"
#include "models/layer_matrices.h"
#include "models/matrix_picture.h"
#include "train/tiny_model.h"

namespace hydramix {
namespace {

const Language& language() {
  static const Language spoken(tiny_pretraining().data.language);
  return spoken;
}

// A document that no model has seen.
Document example(int64_t number) { return language().document(number, Split::kTest); }

// Whole sentences at the beginning of a document, so few that their words can be read along the
// axes of a matrix.
Document short_example() {
  constexpr std::size_t kMostWords = 20;
  auto document = example(0);
  auto& words = document.words;
  std::size_t end = std::min(words.size(), kMostWords);
  for (const int32_t begin : document.sentences)
    if (begin > 0 && static_cast<std::size_t>(begin) <= kMostWords)
      end = static_cast<std::size_t>(begin);
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(end), words.end());
  return document;
}

torch::Tensor ids_of(const Document& document, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids{tokenizer.special().cls};
  for (const auto& word : document.words) ids.push_back(word.id);
  ids.push_back(tokenizer.special().sep);
  return torch::tensor(ids, torch::kInt64).unsqueeze(0);
}

// The words of a document with [MASK] at one position.
std::string masked_text(const Document& document, int64_t at, const Tokenizer& tokenizer) {
  std::string text;
  for (std::size_t i = 0; i < document.words.size(); ++i)
    text += (i > 0 ? " " : "") + (static_cast<int64_t>(i) == at
                                      ? std::string("[MASK]")
                                      : tokenizer.token(document.words[i].id));
  return text;
}

// Masks one position of a document and asks each model for the likeliest word.
DemoFill fill_one_mask(const std::vector<TrainedModel>& models, const Document& document,
                       std::size_t at, const std::string& kind) {
  torch::NoGradGuard no_grad;
  const auto& tokenizer = models.front().tokenizer;
  const auto place = static_cast<int64_t>(at);
  DemoFill fill{
      masked_text(document, place, tokenizer), {}, tokenizer.token(document.words[at].id), kind};
  auto ids = ids_of(document, tokenizer);
  ids[0][place + 1] = tokenizer.special().mask;
  for (const auto& trained : models) {
    const auto hidden = trained.model->encode(ids, {})[0][place + 1];
    fill.answers.push_back(
        tokenizer.token(trained.model->predict(hidden).argmax().item<int32_t>()));
  }
  return fill;
}

}  // namespace

void add_matrices(DemoModel& model, const TrainedModel& trained) {
  const auto ids = ids_of(short_example(), trained.tokenizer);
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < ids.size(1); ++i)
    tokens.push_back(trained.tokenizer.token(ids[0][i].item<int32_t>()));
  const auto layers =
      layer_matrices(*trained.model, trained.model->options(),
                     [&](const auto& observe) { trained.model->encode(ids, {}, {}, {}, observe); });
  double most = -1;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (int64_t h = 0; h < layers[layer].size(0); ++h) {
      const auto M = layers[layer][h];
      if (const double share = share_of_others(M); share > most) {
        most = share;
        model.shown = model.matrices.size();
      }
      auto picture = matrix_picture(concat("layer ", layer + 1, ", head ", h + 1), M);
      picture.row_labels = picture.col_labels = tokens;
      model.matrices.push_back(std::move(picture));
    }
}

std::vector<DemoFill> fill_masks(const std::vector<TrainedModel>& models) {
  constexpr std::size_t kLongest = 50, kExamples = 2;
  std::vector<DemoFill> fills;
  int64_t number = 0;
  for (const auto& [kind, head] : demo_columns()) {
    for (std::size_t found = 0; found < kExamples; ++number) {
      const auto document = example(number);
      const auto word =
          std::find_if(document.words.begin(), document.words.end(),
                       [&, name = kind](const Word& w) { return kind_name(w.kind) == name; });
      if (document.words.size() > kLongest || word == document.words.end()) continue;
      const auto at = static_cast<std::size_t>(word - document.words.begin());
      fills.push_back(fill_one_mask(models, document, at, head));
      ++found;
    }
  }
  return fills;
}

}  // namespace hydramix
