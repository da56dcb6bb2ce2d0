// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the tokenizer: for any vocabulary and text it must agree with the reference
// implementation, or both must refuse the text. The first byte chooses the options; lines up to an
// empty one are the vocabulary, the rest is the text.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "text/tokenizer_reference.h"

namespace {

template <class Function>
std::optional<hydramix::Encoding> result_of(Function&& function) {
  try {
    return function();
  } catch (const hydramix::Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned flags = data[0];
  hydramix::TokenizerOptions options;
  options.lowercase = (flags & 1) == 0;
  options.strip_accents = (flags & 2) == 0;
  options.clean_text = (flags & 4) == 0;
  options.space_chinese = (flags & 8) == 0;
  options.longest_word = (flags & 16) == 0 ? 100 : 5;

  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::set<std::string> known(tokens.begin(), tokens.end());
  for (std::size_t end; (end = text.find('\n')) != text.npos;) {
    const std::string line = text.substr(0, end);
    text.erase(0, end + 1);
    if (line.empty()) break;
    if (known.insert(line).second) tokens.push_back(line);
  }
  const auto tokenizer = hydramix::Tokenizer::from_tokens(tokens, options, "fuzz input");
  const hydramix::test::ReferenceTokenizer reference(tokens, options);
  const auto got = result_of([&] { return tokenizer.encode(text); });
  const auto expected = result_of([&] { return reference.encode(text); });
  if (got.has_value() != expected.has_value()) __builtin_trap();
  if (!got) return 0;
  // Ours also has [CLS] and [SEP].
  if (got->ids.size() != expected->ids.size() + 2) __builtin_trap();
  for (std::size_t k = 0; k < expected->ids.size(); ++k)
    if (got->ids[k + 1] != expected->ids[k] || got->offsets[k + 1] != expected->offsets[k])
      __builtin_trap();
  [[maybe_unused]] const std::string decoded = tokenizer.decode(got->ids);
  return 0;
}
