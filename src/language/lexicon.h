// SPDX-License-Identifier: Apache-2.0
// The words of the built-in language by class, and its vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix {

// A closed class. Its words fall into equal groups, in order: names by gender, animals by number,
// adjectives by their article, moods by polarity.
struct WordClass {
  std::string name;
  std::vector<std::string> words;
  int64_t groups = 1;
};

const WordClass& word_class(std::string_view name);

// Tokens in the order of their ids: [PAD] [UNK] [CLS] [SEP] [MASK], single characters and their
// continuations, so that any English text can be tokenized, then the words of the language.
const std::vector<std::string>& language_vocabulary();
int32_t vocabulary_id(std::string_view token);  // Error when there is none

// Joins tokens to English prose: capitals, no blank before punctuation.
std::string prose(const std::vector<int32_t>& ids);

}  // namespace hydramix
