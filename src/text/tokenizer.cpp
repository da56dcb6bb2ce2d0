// SPDX-License-Identifier: Apache-2.0
#include "hydramix/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/cores.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "text/tokenizer_contents.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

std::unordered_map<std::string_view, int32_t> number_tokens(const std::vector<std::string>& tokens,
                                                            const std::string& origin) {
  HYDRAMIX_CHECK(tokens.size() < std::numeric_limits<int32_t>::max(), origin, ": ", tokens.size(),
                 " tokens are too many.");
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(tokens.size());
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    HYDRAMIX_CHECK(!tokens[k].empty(), origin, ":", k + 1,
                   ": the line is empty; expected one token a line. Remove it.");
    const auto [known, is_new] = ids.emplace(tokens[k], static_cast<int32_t>(k));
    HYDRAMIX_CHECK(is_new, origin, ":", k + 1, ": the token ", in_quotes(tokens[k]),
                   " is already on line ", known->second + 1,
                   "; expected every token once. Remove one of them.");
  }
  return ids;
}

// The tokens that words may consist of, by id.
std::vector<std::string> model_tokens(std::vector<std::string> tokens, std::size_t model_size) {
  tokens.resize(model_size);
  return tokens;
}

const TokenizerOptions& checked(const TokenizerOptions& options) {
  HYDRAMIX_CHECK(options.longest_word >= 1 && options.longest_word <= 1'000'000,
                 "tokenizer: longest_word is ", options.longest_word,
                 "; expected 1 to 1000000 characters. BERT has 100.");
  return options;
}

// Truncates the longer of two lengths, or both to half of the room. An odd token goes to the longer
// one, or to the second when both are equally long.
void cut_pair(std::size_t& first, std::size_t& second, std::size_t room) {
  if (first + second <= room) return;
  const bool swapped = first > second;
  auto& shorter = swapped ? second : first;
  auto& longer = swapped ? first : second;
  longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
}

}  // namespace

TokenizerOptions TokenizerOptions::cased() {
  TokenizerOptions options;
  options.lowercase = options.strip_accents = false;
  return options;
}

Tokenizer::Contents::Contents(Description d, const std::string& origin)
    : tokens(std::move(d.tokens)),
      model_size(d.model_size),
      options(checked(d.options)),
      ids(number_tokens(tokens, origin)),
      added(std::move(d.added)),
      is_special(tokens.size(), false),
      special{find_special("[PAD]", origin), find_special("[UNK]", origin),
              find_special("[CLS]", origin), find_special("[SEP]", origin),
              find_special("[MASK]", origin)},
      encoder(model_tokens(tokens, model_size), special.unknown, options) {
  for (const auto& token : added.tokens())
    if (token.special) is_special[static_cast<std::size_t>(token.id)] = true;
}

int32_t Tokenizer::Contents::find_special(std::string_view name, const std::string& origin) const {
  if (const auto known = ids.find(name); known != ids.end()) return known->second;
  std::vector<std::string> missing;
  for (const auto& token : kSpecialTokens)
    if (!ids.contains(token)) missing.emplace_back(token);
  throw Error(concat(origin, ": the vocabulary lacks ", join(missing), "; expected ",
                     join({kSpecialTokens.begin(), kSpecialTokens.end()}),
                     " among its tokens. Add what is missing, or learn a vocabulary with hydramix "
                     "tokenizer train."));
}

Tokenizer::Tokenizer(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

Tokenizer Tokenizer::from_tokens(std::vector<std::string> tokens, const TokenizerOptions& options,
                                 const std::string& origin) {
  std::vector<AddedToken> added;
  for (std::size_t k = 0; k < tokens.size(); ++k)
    if (std::find(kSpecialTokens.begin(), kSpecialTokens.end(), tokens[k]) != kSpecialTokens.end())
      added.push_back({tokens[k], static_cast<int32_t>(k), true});
  const std::size_t size = tokens.size();
  return Tokenizer(std::make_shared<const Contents>(
      Contents::Description{std::move(tokens), size, std::move(added), options}, origin));
}

namespace {

// Appends a text with the added tokens in it. They do not make the output full.
void append_text(const AddedTokens& added, const TextEncoder& encoder, std::string_view text,
                 EncoderOutput& out) {
  Offsets* offsets = out.offsets;
  int64_t characters = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto match = added.find(text, at);
    characters += encoder.append(text.substr(0, match.begin), at, characters, out);
    if (out.full) return unicode::check_utf8(text);
    if (match.token == nullptr) break;
    out.ids.push_back(match.token->id);
    const auto length =
        std::count_if(match.token->text.begin(), match.token->text.end(),
                      [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
    if (offsets != nullptr) offsets->push_back({characters, characters + length});
    characters += length;
    at = match.begin + match.token->text.size();
  }
}

}  // namespace

void Tokenizer::append_ids(std::string_view text, std::vector<int32_t>& ids) const {
  const std::size_t before = ids.size();
  try {
    EncoderOutput out{ids};
    append_text(contents_->added, contents_->encoder, text, out);
  } catch (...) {
    ids.resize(before);
    throw;
  }
}

namespace {

void append_special(int32_t id, Encoding& encoding) {
  encoding.ids.push_back(id);
  encoding.offsets.push_back({0, 0});
}

// The tokens of a text alone, at least the first max_length of them if it has as many. It ends with
// a word, because the lengths that cut_pair() compares are those of Hugging Face, which stops
// there.
Encoding encode_words(const AddedTokens& added, const TextEncoder& encoder, std::string_view text,
                      int64_t max_length) {
  Encoding words;
  EncoderOutput out{words.ids, &words.offsets};
  if (max_length > 0) out.limit = static_cast<std::size_t>(max_length);
  append_text(added, encoder, text, out);
  return words;
}

// Appends the first `count` tokens of a text, then [SEP].
void append_words(const Encoding& words, std::size_t count, const SpecialTokens& special,
                  Encoding& result) {
  const auto end = static_cast<std::ptrdiff_t>(count);
  result.ids.insert(result.ids.end(), words.ids.begin(), words.ids.begin() + end);
  result.offsets.insert(result.offsets.end(), words.offsets.begin(), words.offsets.begin() + end);
  append_special(special.sep, result);
}

}  // namespace

Encoding Tokenizer::encode(std::string_view text, int64_t max_length) const {
  HYDRAMIX_CHECK(max_length == 0 || max_length >= 2, "tokenizer: max_length is ", max_length,
                 "; expected at least 2, for [CLS] and [SEP], or 0 for no limit.");
  const Encoding words = encode_words(contents_->added, contents_->encoder, text, max_length);
  std::size_t count = words.ids.size();
  if (max_length > 0) count = std::min(count, static_cast<std::size_t>(max_length) - 2);
  Encoding result;
  append_special(contents_->special.cls, result);
  append_words(words, count, contents_->special, result);
  result.type_ids.assign(result.ids.size(), 0);
  return result;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                int64_t max_length) const {
  HYDRAMIX_CHECK(max_length == 0 || max_length >= 3, "tokenizer: max_length is ", max_length,
                 "; expected at least 3, for [CLS] and two [SEP], or 0 for no limit.");
  const Encoding a = encode_words(contents_->added, contents_->encoder, first, max_length);
  const Encoding b = encode_words(contents_->added, contents_->encoder, second, max_length);
  std::size_t from_a = a.ids.size(), from_b = b.ids.size();
  if (max_length > 0) cut_pair(from_a, from_b, static_cast<std::size_t>(max_length) - 3);
  Encoding result;
  append_special(contents_->special.cls, result);
  append_words(a, from_a, contents_->special, result);
  result.type_ids.assign(result.ids.size(), 0);
  append_words(b, from_b, contents_->special, result);
  result.type_ids.resize(result.ids.size(), 1);
  return result;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                              int64_t max_length, int threads) const {
  std::vector<Encoding> result(texts.size());
  const std::size_t workers =
      std::min(texts.size(), static_cast<std::size_t>(threads > 0 ? threads : core_count()));
  std::atomic<std::size_t> next = 0;
  std::size_t failed = texts.size();
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t k; (k = next.fetch_add(1)) < texts.size();) {
      try {
        result[k] = encode(texts[k], max_length);
      } catch (...) {
        // If several texts fail, keep the error of the first text, whichever thread is faster.
        const std::lock_guard lock(mutex);
        if (k < failed) {
          failed = k;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::jthread> pool;
  for (std::size_t k = 1; k < workers; ++k) pool.emplace_back(work);
  work();
  pool.clear();
  if (failure) std::rethrow_exception(failure);
  return result;
}

int64_t Tokenizer::size() const { return static_cast<int64_t>(contents_->tokens.size()); }

const std::string& Tokenizer::token(int32_t id) const {
  HYDRAMIX_CHECK(id >= 0 && id < size(), "tokenizer: id ", id, " is not in the vocabulary of ",
                 size(), " tokens; expected 0 to ", size() - 1,
                 ". Use the tokenizer that made the ids.");
  return contents_->tokens[static_cast<std::size_t>(id)];
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  const auto known = contents_->ids.find(token);
  if (known == contents_->ids.end()) return std::nullopt;
  return known->second;
}

const SpecialTokens& Tokenizer::special() const { return contents_->special; }

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < size() && contents_->is_special[static_cast<std::size_t>(id)];
}

const TokenizerOptions& Tokenizer::options() const { return contents_->options; }

}  // namespace hydramix
