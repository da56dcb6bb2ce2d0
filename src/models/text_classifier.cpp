// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_classifier.h"

#include <algorithm>
#include <numeric>

#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/tokenizer.h"
#include "models/packed_ids.h"

namespace hydramix {
namespace {

constexpr int64_t kBatchTokens = 4096;
constexpr int64_t kUsualLength = 256;  // for a classifier that does not state its training length

}  // namespace

struct TextClassifier::State {
  ClassifierFolder classifier;
  Tokenizer tokenizer;
  int64_t max_length;

  Encoding encoded(const Text& text) const {
    HYDRAMIX_CHECK(!text.second || classifier.model->encoder_options().type_vocab > 1,
                   "a pair for a model that tells no first text from a second (type_vocab is 1). "
                   "Give single texts, or take a model with type_vocab 2.");
    return text.second ? tokenizer.encode_pair(text.first, *text.second, max_length)
                       : tokenizer.encode(text.first, max_length);
  }

  // The encodings at these indices as one packed batch -> logits (S, outputs) float64.
  torch::Tensor logits(const std::vector<Encoding>& encodings,
                       std::span<const std::size_t> some) const {
    PackedIds packed;
    for (const auto i : some) packed.add(encodings[i].ids, encodings[i].type_ids);
    return classifier.model->forward(packed.ids(), packed.type_ids(), packed.layout())
        .to(torch::kFloat64)
        .contiguous();
  }

  // row (outputs) float64
  Answer answer(const torch::Tensor& row) const {
    if (classifier.labels.empty()) return {"", row.item<double>(), {}};
    const auto shares = row.softmax(0);
    const auto* begin = shares.data_ptr<double>();
    const std::vector<double> probabilities(begin, begin + shares.numel());
    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    const auto number = static_cast<std::size_t>(best - probabilities.begin());
    return {classifier.labels[number], static_cast<double>(number), probabilities};
  }
};

TextClassifier::TextClassifier(std::shared_ptr<const State> state) : state_(std::move(state)) {}

TextClassifier TextClassifier::open(const std::filesystem::path& folder, int64_t max_length) {
  HYDRAMIX_CHECK_USAGE(max_length == 0 || max_length >= 3, "text classifier: max_length is ",
                       max_length,
                       "; [CLS] and two [SEP] alone need 3. Give 0 for what it was "
                       "trained with.");
  auto classifier = load_classifier(folder);
  classifier.model->eval();
  const auto tokenizer_file = folder / "tokenizer.json";
  auto tokenizer = load_model_tokenizer(folder);
  const auto& encoder = classifier.model->encoder_options();
  HYDRAMIX_CHECK(tokenizer.size() <= encoder.vocab, tokenizer_file.string(), ": has ",
                 tokenizer.size(), " tokens, the model ", encoder.vocab,
                 ". They do not belong together: take both from one folder.");
  if (max_length == 0) max_length = classifier.model->options().max_length;
  if (max_length == 0) max_length = kUsualLength;
  const int64_t longest = longest_sequence(encoder);
  if (longest > 0) max_length = std::min(max_length, longest);
  return TextClassifier(
      std::make_shared<const State>(State{std::move(classifier), tokenizer, max_length}));
}

std::vector<TextClassifier::Answer> TextClassifier::classify(std::span<const Text> texts) const {
  const torch::NoGradGuard no_grad;
  std::vector<Encoding> encodings;
  encodings.reserve(texts.size());
  for (const auto& text : texts) {
    try {
      encodings.push_back(state_->encoded(text));
    } catch (const Error& error) {
      throw Error(concat("text ", encodings.size() + 1, " of ", texts.size(), ": ", error.what()));
    }
  }
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return static_cast<int64_t>(encodings[i].ids.size()); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length(a) < length(b); });

  std::vector<Answer> answers(texts.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    for (int64_t tokens = length(order[begin]); end < order.size(); ++end)
      if ((tokens += length(order[end])) > kBatchTokens) break;
    const auto some = std::span(order).subspan(begin, end - begin);
    const auto logits = state_->logits(encodings, some);
    for (std::size_t k = 0; k < some.size(); ++k)
      answers[some[k]] = state_->answer(logits[static_cast<int64_t>(k)]);
    begin = end;
  }
  return answers;
}

TextClassifier::Answer TextClassifier::classify(const Text& text) const {
  return classify(std::span(&text, 1)).front();
}

const std::string& TextClassifier::task() const { return state_->classifier.task; }
const std::vector<std::string>& TextClassifier::labels() const { return state_->classifier.labels; }
int64_t TextClassifier::max_length() const { return state_->max_length; }

}  // namespace hydramix
