// SPDX-License-Identifier: Apache-2.0
// Documents of the built-in language for training, generated on demand. Splits never share a
// document.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/documents.h"
#include "hydramix/tokenizer.h"
#include "language/language.h"

namespace hydramix {

// BERT's uncased tokenizer with the vocabulary of the language: every word of the language is one
// token; other English text is split into letters.
Tokenizer language_tokenizer();

// The number of documents in an evaluation. The language is infinite, so 0 (all) means 2000.
inline int64_t evaluated_language_documents(int64_t limit) { return limit > 0 ? limit : 2000; }

class LanguageDocuments : public Documents {
 public:
  LanguageDocuments(const LanguageOptions& options, Split split, int64_t documents);

  int64_t size() const override { return size_; }
  int64_t length(int64_t document) const override;
  void read(int64_t document, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return tokenizer_fingerprint_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> kinds() const override;
  std::vector<Dependency> dependencies(int64_t document,
                                       const std::vector<char>& hidden) const override;

  // The document with the evidence for its words, for achievable(); token i of read() is word i.
  Document document(int64_t document) const;
  void read_kinds(int64_t document, std::vector<Kind>& kinds) const;  // appends, as read()
  const Language& language() const { return language_; }

 private:
  Language language_;
  Split split_;
  int64_t size_;
  std::string tokenizer_fingerprint_, fingerprint_;
};

}  // namespace hydramix
