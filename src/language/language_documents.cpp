// SPDX-License-Identifier: Apache-2.0
#include "language/language_documents.h"

#include "base/formatted.h"
#include "base/random.h"
#include "hydramix/error.h"

namespace hydramix {

Tokenizer language_tokenizer() {
  return Tokenizer::from_tokens(Language().vocabulary(), {}, "the built-in language");
}

LanguageDocuments::LanguageDocuments(const LanguageOptions& options, Split split, int64_t documents)
    : language_(options), split_(split), size_(documents) {
  HYDRAMIX_CHECK(documents > 0, "language: a set of ", documents,
                 " documents was asked for; expected at least one.");
  tokenizer_fingerprint_ = language_tokenizer().fingerprint();
  // The hash covers the first documents, because any change of grammar or lexicon changes them.
  uint64_t hash = scatter(static_cast<uint64_t>(documents));
  for (int64_t i = 0; i < 64; ++i) {
    std::vector<int32_t> ids;
    for (const auto& word : language_.document(i, split).words) ids.push_back(word.id);
    for (const int32_t id : ids) hash = scatter(hash + static_cast<uint64_t>(id) + 1);
  }
  fingerprint_ = formatted("%016llx", hash);
}

Document LanguageDocuments::document(int64_t document) const {
  HYDRAMIX_CHECK(document >= 0 && document < size_, "language: document ", document,
                 " was asked for; there are ", size_, ", counted from 0.");
  return language_.document(document, split_);
}

int64_t LanguageDocuments::length(int64_t document) const {
  return static_cast<int64_t>(this->document(document).words.size());
}

void LanguageDocuments::read(int64_t document, std::vector<int32_t>& ids) const {
  for (const auto& word : this->document(document).words) ids.push_back(word.id);
}

std::vector<std::string> LanguageDocuments::kinds() const {
  std::vector<std::string> names;
  for (int kind = 0; kind < kKinds; ++kind) names.emplace_back(kind_name(static_cast<Kind>(kind)));
  return names;
}

std::vector<Dependency> LanguageDocuments::dependencies(int64_t document,
                                                        const std::vector<char>& hidden) const {
  const auto own = this->document(document);
  std::vector<Dependency> all;
  for (std::size_t i = 0; i < own.words.size(); ++i) {
    // achievable() derives the fixed words of a phrase only from each other. Free words and the
    // length also identify the phrase, so it is almost always recoverable.
    const auto kind = own.words[i].kind;
    all.push_back({static_cast<int32_t>(kind),
                   kind == Kind::kLocal ? 1 : achievable(own, hidden, static_cast<int64_t>(i))});
  }
  return all;
}

void LanguageDocuments::read_kinds(int64_t document, std::vector<Kind>& kinds) const {
  for (const auto& word : this->document(document).words) kinds.push_back(word.kind);
}

}  // namespace hydramix
