// SPDX-License-Identifier: Apache-2.0
// Tokenized documents by number, for pretraining: from token shards, or generated on demand.
// Reading is a pure function of the number and thread-safe, so the position in the data is a single
// count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

// How a masked word depends on the others. Known only for generated documents.
struct Dependency {
  int32_t kind = 0;       // index into kinds()
  double achievable = 0;  // the best expected accuracy given the words that are not masked
};

class Documents {
 public:
  virtual ~Documents() = default;

  virtual int64_t size() const = 0;                    // documents, at least one
  virtual int64_t length(int64_t document) const = 0;  // tokens, without [CLS] and [SEP]
  // Appends the ids of a document, without [CLS] and [SEP].
  virtual void read(int64_t document, std::vector<int32_t>& ids) const = 0;
  // Fingerprint of the tokenizer that made the ids (Tokenizer::fingerprint).
  virtual std::string tokenizer_fingerprint() const = 0;
  // Fingerprint of the data itself. A resumed run detects other data by it.
  virtual std::string fingerprint() const = 0;

  // Names of the kinds of dependencies; empty where they are not known.
  virtual std::vector<std::string> kinds() const { return {}; }
  // The dependency of each token of a document, given the hidden tokens. Only for documents with
  // kinds().
  virtual std::vector<Dependency> dependencies(int64_t document,
                                               const std::vector<char>& hidden) const;
};

}  // namespace hydramix
