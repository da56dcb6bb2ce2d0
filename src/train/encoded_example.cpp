// SPDX-License-Identifier: Apache-2.0
#include "train/encoded_example.h"

#include <cmath>

#include "hydramix/error.h"

namespace hydramix {
namespace {

EncodedExample encoded_words(const std::vector<std::string>& words, const Tokenizer& tokenizer,
                             int64_t max_length) {
  EncodedExample one;
  one.ids = {tokenizer.special().cls};
  bool full = false;  // no word after the first that does not fit
  for (const auto& word : words) {
    const auto before = one.ids.size();
    if (!full) tokenizer.append_ids(word, one.ids);
    full = full || (max_length > 0 && std::ssize(one.ids) >= max_length);
    if (full) one.ids.resize(before);
    one.places.push_back(one.ids.size() > before ? static_cast<int64_t>(before) : -1);
  }
  one.ids.push_back(tokenizer.special().sep);
  one.type_ids.assign(one.ids.size(), 0);
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
