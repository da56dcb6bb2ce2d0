// SPDX-License-Identifier: Apache-2.0
// Small files of the built-in language in the formats that hydramix finetune reads: one for each
// kind of label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

struct ExampleTextFile {
  std::string name;
  std::string contents;
};

//   reviews.tsv      review, verdict               a class
//   questions.csv    first, second, same           a class of two texts
//   similar.jsonl    first, second, score          a score of two texts, or how similar they are
//   purchases.jsonl  text, goods: [...]            any number of labels
//   people.conll     words, and tags PER, LOC and OBJ
//   answers.csv      question, answer              texts that belong together
std::vector<ExampleTextFile> make_example_files(int64_t rows, int64_t seed);

}  // namespace hydramix
