// SPDX-License-Identifier: Apache-2.0
// Tokenized documents by number: what pretraining reads, whether from token shards or made up as
// they are asked for. Reading is a pure function of the number and safe from many threads, so the
// position in the data is never more than a count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydramix {

// What a masked word depends on, as documents may know it that were made up by rules.
struct Dependency {
  int32_t kind = 0;       // index into kinds()
  double achievable = 0;  // the best accuracy that anybody can expect, seeing what is not masked
};

class Documents {
 public:
  virtual ~Documents() = default;

  virtual int64_t size() const = 0;                    // documents, at least one
  virtual int64_t length(int64_t document) const = 0;  // tokens, without [CLS] and [SEP]
  // Appends the ids of a document, without [CLS] and [SEP].
  virtual void read(int64_t document, std::vector<int32_t>& ids) const = 0;
  // Of the tokenizer that made the ids (Tokenizer::fingerprint).
  virtual std::string tokenizer_fingerprint() const = 0;
  // Of the data itself, so that a resumed run can tell that it was exchanged.
  virtual std::string fingerprint() const = 0;

  // Names of the kinds of dependencies; none where they are not known.
  virtual std::vector<std::string> kinds() const { return {}; }
  // For each token of a document: what it depends on, given which tokens cannot be seen. Only for
  // documents that have kinds().
  virtual std::vector<Dependency> dependencies(int64_t document,
                                               const std::vector<char>& hidden) const;
};

}  // namespace hydramix
