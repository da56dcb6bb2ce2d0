// SPDX-License-Identifier: Apache-2.0
// Tokenized examples of a task on text.
#pragma once

#include <vector>

#include "glue/sentences.h"
#include "hydramix/tokenizer.h"
#include "tasks/text_task.h"

namespace hydramix {

struct EncodedExample {
  std::vector<int32_t> ids, type_ids;
  std::vector<double> targets;            // as in Example; empty if unknown
  int64_t line = 0;                       // of the file
  std::vector<int32_t> partner_ids = {};  // kPairs: the second text, a sequence of its own
  std::vector<int64_t> places = {};       // kTokens: of each word, as in WordPieces
};

// [CLS] first [SEP] or [CLS] first [SEP] second [SEP], cut to max_length tokens; kPairs: [CLS] text
// [SEP] of each; kTokens: [CLS], the pieces of all words, [SEP].
std::vector<EncodedExample> encode_examples(const TextTask& task, const std::vector<Example>& rows,
                                            const Tokenizer& tokenizer, int64_t max_length);
std::vector<EncodedExample> encode_sentences(const TextTask& task,
                                             const std::vector<Sentence>& rows,
                                             const Tokenizer& tokenizer, int64_t max_length);

}  // namespace hydramix
