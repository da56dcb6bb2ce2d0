// SPDX-License-Identifier: Apache-2.0
// The sentences of a GLUE task, from the official files as they are: columns are found by the names
// in the header. Whatever is wrong with a file is an Error that names it and the line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "glue/sentence_task.h"

namespace hydramix {

struct Sentence {             // one example
  std::string id;             // its "index" or "id" where the file has one, else its number from 0
  std::string first, second;  // second is empty for tasks of one sentence
  double label;               // class number or score; NaN without
  int64_t line;               // in the file, from 1
};

struct SentenceFile {
  std::filesystem::path path;
  std::vector<Sentence> rows;
  std::string fingerprint;  // of the bytes (unpacked), 16 hex digits
  // Lines of torn rows that were left out. The official files of QQP with labels have a few, which
  // everyone drops; more than one in a thousand are an Error, and so is any in another task, or in
  // a file without labels, each of whose rows wants an answer.
  std::vector<int64_t> torn;
};

// kNone never looks at labels: test files. kIfThere: where there is a column of them.
enum class Labels { kNeeded, kNone, kIfThere };

SentenceFile read_sentences(const SentenceTask& task, const std::filesystem::path& path,
                            Labels labels);

// Says which rows of a file were torn.
std::string left_out(const SentenceFile& file);

}  // namespace hydramix
