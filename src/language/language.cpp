// SPDX-License-Identifier: Apache-2.0
#include "language/language.h"

#include <algorithm>

#include "hydramix/error.h"
#include "language/grammar.h"
#include "language/lexicon.h"
#include "language/writer.h"

namespace hydramix {

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[kKinds] = {
      "local", "left", "right", "recall_left", "recall_right", "recall_both", "free"};
  return kNames[static_cast<std::size_t>(kind)];
}

Language::Language(const LanguageOptions& options) : options_(options) {
  validate(options);
  // A sentence has up to 14 words: the last one must fit wherever the ones before it end.
  HYDRAMIX_CHECK_USAGE(options.longest >= options.shortest + 20, "language: longest is ",
                       options.longest, " and shortest ", options.shortest,
                       "; documents are made of whole sentences. Make longest at least ",
                       options.shortest + 20, ".");
  grammar_ = std::make_shared<Grammar>();
}

Document Language::document(int64_t index, Split split) const {
  HYDRAMIX_CHECK(index >= 0, "language: the document ", index,
                 " was asked for; documents are counted from 0.");
  const Random random(static_cast<uint64_t>(options_.seed), static_cast<uint64_t>(split),
                      static_cast<uint64_t>(index));
  return Writer(*grammar_, random, options_).write();
}

const std::vector<std::string>& Language::vocabulary() const { return language_vocabulary(); }

std::string Language::text(const Document& document) const {
  std::vector<int32_t> ids;
  for (const auto& word : document.words) ids.push_back(word.id);
  return prose(ids);
}

double achievable(const Document& document, const std::vector<char>& masked, int64_t at) {
  HYDRAMIX_CHECK(
      masked.size() == document.words.size() && at >= 0 && at < static_cast<int64_t>(masked.size()),
      "achievable: ", masked.size(), " positions and position ", at, " were given, for ",
      document.words.size(), " words. Mark each word of the document once.");
  const Word& word = document.words[static_cast<std::size_t>(at)];
  double best = word.guess;
  for (const auto& evidence : word.evidence) {
    const bool visible = std::none_of(
        evidence.places.begin(), evidence.places.end(),
        [&](int32_t place) { return place == at || masked[static_cast<std::size_t>(place)]; });
    if (visible) best = std::max(best, evidence.accuracy);
  }
  return best;
}

}  // namespace hydramix
