// SPDX-License-Identifier: Apache-2.0
#include "hydramix/text_classifier.h"

#include <algorithm>

#include "hydramix/text_embedder.h"
#include "models/encoded_texts.h"
#include "models/text_model.h"

namespace hydramix {
namespace {

TextClassifier::Answer answer_of(std::span<const double> outputs, const ClassifierTask& task) {
  const auto& labels = task.labels;
  TextClassifier::Answer answer;
  if (labels.empty()) {
    answer.value = outputs[0];
    return answer;
  }
  answer.probabilities = label_shares(outputs, task);
  if (task.kind == "labels") {
    for (std::size_t k = 0; k < labels.size(); ++k)
      if (answer.probabilities[k] >= task.thresholds[k]) answer.labels.push_back(labels[k]);
    answer.value = static_cast<double>(answer.labels.size());
    return answer;
  }
  const auto best = std::max_element(answer.probabilities.begin(), answer.probabilities.end());
  const auto number = best - answer.probabilities.begin();
  answer.label = labels[static_cast<std::size_t>(number)];
  answer.value = static_cast<double>(number);
  return answer;
}

}  // namespace

TextClassifier::TextClassifier(std::shared_ptr<const TextModel> model) : model_(std::move(model)) {}

TextClassifier TextClassifier::open(const std::filesystem::path& folder, int64_t max_length) {
  return open(folder, TextModelOptions{.max_length = max_length});
}

TextClassifier TextClassifier::open(const std::filesystem::path& folder,
                                    const TextModelOptions& options) {
  if (!is_classifier(folder)) load_classifier(folder);  // throws, naming what the folder is
  TextClassifier opened(TextModel::open(folder, options, kUsualClassifierLength));
  HYDRAMIX_CHECK(opened.kind() != "tokens", folder.string(),
                 ": tags the words of a text and has no answer for the whole. Open it as a "
                 "TextTagger.");
  return opened;
}

std::vector<TextClassifier::Answer> TextClassifier::classify(std::span<const Text> texts) const {
  if (kind() == "pairs") return similarities(texts);
  const bool takes_pairs = model_->encoder_options().type_vocab > 1;
  const auto encode_one = [&](std::size_t i, int64_t max_length) {
    const auto& [first, second] = texts[i];
    HYDRAMIX_CHECK(!second || takes_pairs,
                   "a pair for a model that tells no first text from a second (type_vocab is 1). "
                   "Give single texts, or take a model with type_vocab 2.");
    return second ? model_->tokenizer().encode_pair(first, *second, max_length)
                  : model_->tokenizer().encode(first, max_length);
  };
  const auto encodings = model_->encode_texts(texts.size(), encode_one);
  const auto outputs = text_outputs(*model_, encodings);
  std::vector<Answer> answers(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    answers[i] = answer_of(outputs[i], model_->classifier());
    answers[i].tokens = model_->tokens_of(
        encodings[i], [&](int64_t max_length) { return encode_one(i, max_length); });
  }
  return answers;
}

std::vector<TextClassifier::Answer> TextClassifier::similarities(
    std::span<const Text> texts) const {
  std::vector<std::string> sides[2];
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].second)
      throw TextError(
          i, texts.size(),
          "it is a single text, but the model compares two. Give pairs, or use hydramix "
          "embed or a TextEmbedder for vectors.");
    sides[0].push_back(texts[i].first);
    sides[1].push_back(*texts[i].second);
  }
  const TextEmbedder embedder(model_, {.normalize = true});
  const auto first = embedder.embed(sides[0]), second = embedder.embed(sides[1]);
  std::vector<Answer> answers(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t c = 0; c < first[i].vector.size(); ++c)
      answers[i].value += static_cast<double>(first[i].vector[c]) * second[i].vector[c];
    answers[i].tokens = first[i].tokens;
    answers[i].tokens.count += second[i].tokens.count;
    answers[i].tokens.unknown += second[i].tokens.unknown;
    answers[i].tokens.cut = first[i].tokens.cut || second[i].tokens.cut;
  }
  return answers;
}

TextClassifier::Answer TextClassifier::classify(const Text& text) const {
  return classify(std::span(&text, 1)).front();
}

const std::string& TextClassifier::task() const { return model_->classifier().task; }
const std::vector<std::string>& TextClassifier::labels() const {
  return model_->classifier().labels;
}
const std::string& TextClassifier::kind() const { return model_->classifier().kind; }
bool TextClassifier::takes_pairs() const { return model_->classifier().pairs || kind() == "pairs"; }
TextClassifier::Columns TextClassifier::columns() const {
  const auto& about = model_->classifier();
  return {about.text, about.pair, about.label, about.separator};
}
int64_t TextClassifier::max_length() const { return model_->max_length(); }

}  // namespace hydramix
