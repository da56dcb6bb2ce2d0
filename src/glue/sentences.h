// SPDX-License-Identifier: Apache-2.0
// Reads the sentences of a GLUE task from the unmodified official files. Columns are found by the
// names in the header. An Error about a file names the file and the line.
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
  double label;               // class number or score; NaN if unknown
  int64_t line;               // in the file, from 1
};

struct SentenceFile {
  std::filesystem::path path;
  std::vector<Sentence> rows;
  std::string fingerprint;  // of the bytes (unpacked), 16 hex digits
  // Line numbers of torn rows, which were skipped. The official labelled files of QQP have a few.
  // More than one in a thousand rows is an Error, as is any torn row in another task or in a file
  // without labels, where every row needs an answer.
  std::vector<int64_t> torn;
};

// kNone ignores labels, for test files. kIfThere reads them if the file has a column for them.
enum class Labels { kNeeded, kNone, kIfThere };

SentenceFile read_sentences(const SentenceTask& task, const std::filesystem::path& path,
                            Labels labels);

// A message that lists the torn rows of a file.
std::string left_out(const SentenceFile& file);

}  // namespace hydramix
