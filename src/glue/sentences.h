// SPDX-License-Identifier: Apache-2.0
// Reads the sentences of a GLUE task from the unmodified official files, one by one or all. Columns
// are found by the names in the header. An Error about a file names the file and the line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

// kNone ignores labels, for test files. kIfThere reads them if the file has a column for them.
enum class Labels { kNeeded, kNone, kIfThere };

class SentenceReader {
 public:
  SentenceReader(const SentenceTask& task, const std::filesystem::path& path, Labels labels);
  ~SentenceReader();

  bool next(Sentence& row);         // false after the last
  int64_t consumed() const;         // bytes of the file so far
  std::string fingerprint() const;  // of the bytes (unpacked), 16 hex digits; after the last row
  // Line numbers of torn rows, which are skipped. The official labelled files of QQP have a few.
  // More than one in a thousand rows is an Error after the last row; any torn row is one in another
  // task, or in a file without labels, where every row needs an answer.
  const std::vector<int64_t>& torn() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct SentenceFile {
  std::filesystem::path path;
  std::vector<Sentence> rows;
  std::string fingerprint;
  std::vector<int64_t> torn;
};

SentenceFile read_sentences(const SentenceTask& task, const std::filesystem::path& path,
                            Labels labels);

// A message that lists the torn rows of a file.
std::string left_out(const std::filesystem::path& path, const std::vector<int64_t>& torn);

}  // namespace hydramix
