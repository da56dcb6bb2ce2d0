// SPDX-License-Identifier: Apache-2.0
// A task and its examples from a user's own files: TSV, CSV, JSON lines, or CoNLL for tags of
// words. Finds the kind of the labels and their names, and holds out examples where no development
// file is given. An Error names file, line, what was found and what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tasks/text_task.h"

namespace hydramix {

class RawReader;

// The names of columns, or numbers from 1 in a CoNLL file.
struct OwnColumns {
  std::string text, pair, label;  // empty: the usual name; pair, and label of kPairs: none
  std::string separator = ",";    // between the labels of a cell that is no JSON list
};

struct OwnDataOptions {
  std::filesystem::path data, dev;  // dev is empty: a share of the data is held out
  std::string kind;                 // a name of label_kinds(); empty: classes or score
  OwnColumns columns;
  std::string format = "auto";  // tsv, csv, jsonl, conll
  double dev_share = 0.1;
  int64_t seed = 0;  // of the held-out share
};

struct OwnData {
  TextTask task;
  OwnColumns columns;  // complete
  std::vector<Example> train, dev;
  std::string train_fingerprint, dev_fingerprint;  // the latter is empty without a file
  std::string origin;                              // of dev, for messages
};

// A task on own files: its metrics follow from the rest.
TextTask own_task(LabelKind kind, const OwnColumns& columns, std::vector<std::string> labels);

OwnData read_own_data(const OwnDataOptions& options);

// Examples for a model that exists, one by one, with targets where the file has labels. With
// `needs_labels`, a row without one is an Error. `task` is what the model was trained for.
class OwnReader {
 public:
  OwnReader(const std::filesystem::path& path, const std::string& format, const TextTask& task,
            const OwnColumns& columns, bool needs_labels);
  ~OwnReader();

  bool next(Example& example);      // false after the last
  int64_t consumed() const;         // bytes of the file so far
  std::string fingerprint() const;  // of all bytes; call after the last

 private:
  std::filesystem::path path_;
  TextTask task_;
  OwnColumns columns_;
  std::unique_ptr<RawReader> rows_;
};

// All examples of the file at once.
struct OwnFile {
  std::vector<Example> rows;
  std::string fingerprint;
};
OwnFile read_own_file(const std::filesystem::path& path, const std::string& format,
                      const TextTask& task, const OwnColumns& columns, bool needs_labels);

}  // namespace hydramix
