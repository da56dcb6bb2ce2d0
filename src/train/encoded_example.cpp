// SPDX-License-Identifier: Apache-2.0
#include "train/encoded_example.h"

#include <cmath>

#include "models/word_pieces.h"

namespace hydramix {
namespace {

EncodedExample encoded_words(const std::vector<std::string>& words, const Tokenizer& tokenizer,
                             int64_t max_length) {
  auto pieces = word_pieces(words, tokenizer, max_length);
  EncodedExample one;
  one.ids = std::move(pieces.ids);
  one.type_ids.assign(one.ids.size(), 0);
  one.places = std::move(pieces.places);
  return one;
}

EncodedExample encoded_texts(const TextTask& task, const std::string& first,
                             const std::string& second, const Tokenizer& tokenizer,
                             int64_t max_length) {
  const bool apart = task.kind == LabelKind::kPairs;
  auto one = task.pairs && !apart ? tokenizer.encode_pair(first, second, max_length)
                                  : tokenizer.encode(first, max_length);
  EncodedExample example;
  example.ids = std::move(one.ids);
  example.type_ids = std::move(one.type_ids);
  if (apart) example.partner_ids = tokenizer.encode(second, max_length).ids;
  return example;
}

}  // namespace

std::vector<EncodedExample> encode_examples(const TextTask& task, const std::vector<Example>& rows,
                                            const Tokenizer& tokenizer, int64_t max_length) {
  std::vector<EncodedExample> encoded;
  encoded.reserve(rows.size());
  for (const auto& row : rows) {
    auto one = task.kind == LabelKind::kTokens
                   ? encoded_words(row.words, tokenizer, max_length)
                   : encoded_texts(task, row.first, row.second, tokenizer, max_length);
    one.targets = row.targets;
    one.line = row.line;
    encoded.push_back(std::move(one));
  }
  return encoded;
}

std::vector<EncodedExample> encode_sentences(const TextTask& task,
                                             const std::vector<Sentence>& rows,
                                             const Tokenizer& tokenizer, int64_t max_length) {
  std::vector<EncodedExample> encoded;
  encoded.reserve(rows.size());
  for (const auto& row : rows) {
    auto one = encoded_texts(task, row.first, row.second, tokenizer, max_length);
    if (!std::isnan(row.label)) one.targets = {row.label};
    one.line = row.line;
    encoded.push_back(std::move(one));
  }
  return encoded;
}

}  // namespace hydramix
