// SPDX-License-Identifier: Apache-2.0
// hydramix tokenizer: learns a vocabulary, turns text into ids and back, inspects a tokenizer.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "cli/progress.h"
#include "data/line_reader.h"
#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "text/wordpiece_trainer.h"

namespace hydramix {
namespace {

using nlohmann::ordered_json;

struct TokenizerCommandOptions {
  std::string action;
  std::vector<std::string> text;
  std::string vocab;
  bool cased = false;
  std::string jsonl;
  int64_t max_length = 0;
  bool keep_special = false;
  std::vector<std::string> input;
  std::string out;
  int64_t size = 30522;
  bool lowercase = true;
  int64_t min_frequency = 2;
  int64_t max_alphabet = 1000;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("action", self.action, Positional{}, Required{},
      Choices{"train", "encode", "decode", "inspect"}, "what to do");
    v("text", self.text, Positional{},
      "encode, inspect: texts; decode: ids. Without any, encode and decode read lines of stdin");
    v("vocab", self.vocab, "vocab.txt or tokenizer.json (encode, decode, inspect)");
    v("cased", self.cased, "keep case and accents; for a vocab.txt");
    v("jsonl", self.jsonl,
      "file of JSON lines, - for stdin: encode reads a text or a list of two, a pair; decode reads "
      "a list of ids, or what encode prints");
    v("max_length", self.max_length, Range{0, 1 << 30},
      "encode: cut to this many tokens with [CLS] and [SEP]; 0: do not cut");
    v("keep_special", self.keep_special, "decode: show [CLS] and other special tokens");
    v("input", self.input,
      "train: text files to learn from; inspect: files to measure the tokenizer on");
    v("out", self.out,
      "train: file to write, a vocab.txt, or a tokenizer.json if it ends in .json");
    v("size", self.size, Range{6, 10'000'000}, "train: tokens to learn, with the special ones");
    v("lowercase", self.lowercase, "train: lower-case and strip accents");
    v("min_frequency", self.min_frequency, Range{1, kInfinity},
      "train: number of times a pair must occur to become a token");
    v("max_alphabet", self.max_alphabet, Range{1, 1'114'112},
      "train: maximum number of characters; words with rarer ones are skipped");
  }
};
using Options = TokenizerCommandOptions;

std::string in_file(const std::string& file, int64_t line) {
  return concat(file == "-" ? "stdin" : file, ":", line, ": ");
}

// Calls function(line) with each line of a file, "-" for stdin; prefixes an Error with the line.
template <class Function>
void for_each_line(const std::string& path, Function&& function) {
  for (LineReader lines(open_text(path), kLongestTextLine); lines.next();) {
    check_line_length(lines, path);
    try {
      function(std::string(lines.text()));
    } catch (const Error& error) {
      throw Error(in_file(path, lines.number()) + error.what());
    }
  }
}

ordered_json parse_line(const std::string& line, const char* expected) {
  return parse_json(line, in_quotes(line), concat("Expected ", expected, "."));
}

Tokenizer load_tokenizer(const Options& o) {
  HYDRAMIX_CHECK_USAGE(!o.vocab.empty(), "tokenizer ", o.action,
                       ": no vocabulary given; expected --vocab vocab.txt or tokenizer.json.");
  return Tokenizer::load(o.vocab, o.cased ? TokenizerOptions::cased() : TokenizerOptions{});
}

void print_encoding(const Tokenizer& tokenizer, const Encoding& encoding) {
  // Written as text directly: the JSON values of a long text would take ten times the memory.
  std::string line = "{";
  const auto add_list = [&](const char* key, const auto& item) {
    line += concat(line.size() > 1 ? "," : "", '"', key, "\":[");
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      if (i > 0) line += ',';
      line += item(i);
    }
    line += ']';
  };
  add_list("ids", [&](std::size_t i) { return std::to_string(encoding.ids[i]); });
  add_list("tokens",
           [&](std::size_t i) { return ordered_json(tokenizer.token(encoding.ids[i])).dump(); });
  add_list("offsets", [&](std::size_t i) {
    const auto& [begin, end] = encoding.offsets[i];
    return "[" + std::to_string(begin) + "," + std::to_string(end) + "]";
  });
  add_list("type_ids", [&](std::size_t i) { return std::to_string(encoding.type_ids[i]); });
  std::cout << line << "}\n";
}

int encode(const Options& o) {
  const Tokenizer tokenizer = load_tokenizer(o);
  const auto encode_text = [&](const std::string& text) {
    print_encoding(tokenizer, tokenizer.encode(text, o.max_length));
  };
  HYDRAMIX_CHECK_USAGE(o.jsonl.empty() || o.text.empty(),
                       "tokenizer encode: both --jsonl and a text are given. Use one of them.");
  for (const auto& text : o.text) encode_text(text);
  if (!o.text.empty()) return 0;
  if (o.jsonl.empty()) {
    for_each_line("-", encode_text);
    return 0;
  }
  for_each_line(o.jsonl, [&](const std::string& line) {
    constexpr const char* kExpected = "a text, or a list of two texts for a pair";
    const auto value = parse_line(line, kExpected);
    if (value.is_string()) return encode_text(value.get<std::string>());
    HYDRAMIX_CHECK(
        value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string(),
        in_quotes(line), " is neither; expected ", kExpected, ".");
    print_encoding(tokenizer, tokenizer.encode_pair(value[0].get<std::string>(),
                                                    value[1].get<std::string>(), o.max_length));
  });
  return 0;
}

// [7592, 2088] or 7592 2088 or 7592,2088 or what encode prints: {"ids": [7592, 2088], ...}
std::vector<int32_t> parse_ids(const std::string& line) {
  constexpr const char* kExpected = "ids, as [7592, 2088] or 7592 2088 or {\"ids\": [7592, 2088]}";
  std::vector<int32_t> ids;
  const auto start = line.find_first_not_of(" \t");
  if (start != line.npos && (line[start] == '[' || line[start] == '{')) {
    auto list = parse_line(line, kExpected);
    if (list.is_object()) {
      HYDRAMIX_CHECK(list.contains("ids") && list["ids"].is_array(), in_quotes(line),
                     " has no list \"ids\"; expected ", kExpected, ".");
      list = ordered_json(list["ids"]);
    }
    for (const auto& value : list) {
      HYDRAMIX_CHECK(value.is_number_integer() && value >= 0 && value <= 0x7FFFFFFF,
                     in_quotes(value.dump()), " is no id; expected ", kExpected, ".");
      ids.push_back(value.get<int32_t>());
    }
    return ids;
  }
  constexpr const char* kSeparators = " ,\t\r";
  for (std::size_t at = line.find_first_not_of(kSeparators); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(kSeparators, at), line.size());
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(line.data() + at, line.data() + end, id);
    HYDRAMIX_CHECK(error == std::errc() && stop == line.data() + end,
                   in_quotes(line.substr(at, end - at)), " is no id; expected ", kExpected, ".");
    ids.push_back(id);
    at = line.find_first_not_of(kSeparators, end);
  }
  return ids;
}

int decode(const Options& o) {
  const Tokenizer tokenizer = load_tokenizer(o);
  const auto decode_line = [&](const std::string& line) {
    std::cout << tokenizer.decode(parse_ids(line), !o.keep_special) << '\n';
  };
  HYDRAMIX_CHECK_USAGE(o.jsonl.empty() || o.text.empty(),
                       "tokenizer decode: both --jsonl and ids are given. Use one of them.");
  if (o.text.empty()) {
    for_each_line(o.jsonl.empty() ? "-" : o.jsonl, decode_line);
    return 0;
  }
  std::string line;
  for (const auto& word : o.text) line += word + " ";
  decode_line(line);
  return 0;
}

// Measures how well a tokenizer fits a text, and its speed: the best of three runs in one thread.
void print_measurement(const Tokenizer& tokenizer, const std::string& path) {
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  for_each_line(path, [&](const std::string& line) {
    std::vector<int32_t> ids;
    tokenizer.append_ids(line, ids);  // so that an Error names the line
    bytes += line.size() + 1;
    lines.push_back(line);
  });
  using Clock = std::chrono::steady_clock;
  std::vector<int32_t> ids;
  double seconds = kInfinity;
  for (int run = 0; run < 3; ++run) {
    ids.clear();
    const auto start = Clock::now();
    for (const auto& line : lines) tokenizer.append_ids(line, ids);
    seconds = std::min(seconds, std::chrono::duration<double>(Clock::now() - start).count());
  }
  const auto unknown = std::count(ids.begin(), ids.end(), tokenizer.special().unknown);
  const auto total = static_cast<double>(std::max<std::size_t>(ids.size(), 1));
  std::cout << formatted(
      "\n%s\n  lines        %lld\n  tokens       %lld, %.2f bytes each\n  unknown      %.3f %%\n"
      "  speed        %.0f MB/s in one thread\n",
      path, lines.size(), ids.size(), static_cast<double>(bytes) / total,
      100.0 * static_cast<double>(unknown) / total,
      static_cast<double>(bytes) / std::max(seconds, 1e-9) / 1e6);
}

int inspect(const Options& o) {
  const Tokenizer tokenizer = load_tokenizer(o);
  const TokenizerOptions& t = tokenizer.options();
  const auto yes = [](bool flag) { return flag ? "yes" : "no"; };
  int64_t special = 0, pieces = 0;
  std::string names;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const bool is_special = tokenizer.is_special(id);
    if (is_special)
      names += concat(names.empty() ? "" : ", ", escaped(tokenizer.token(id)), " ", id);
    special += is_special;
    pieces += !is_special && tokenizer.token(id).starts_with(t.prefix);
  }
  const auto percent = [&](int64_t count) {
    return formatted("%lld (%.1f %%)", count,
                     100.0 * static_cast<double>(count) / static_cast<double>(tokenizer.size()));
  };
  std::cout << "tokens         " << tokenizer.size() << "\n"
            << "  words        " << percent(tokenizer.size() - special - pieces) << "\n"
            << "  pieces       " << percent(pieces) << ", prefix " << in_quotes(t.prefix) << "\n"
            << "  special      " << names << "\n"
            << "lower case     " << yes(t.lowercase) << "\n"
            << "strip accents  " << yes(t.strip_accents) << "\n"
            << "clean text     " << yes(t.clean_text) << "\n"
            << "space Chinese  " << yes(t.space_chinese) << "\n"
            << "longest word   " << t.longest_word << " characters\n"
            << "fingerprint    " << tokenizer.fingerprint() << "\n";
  for (const auto& text : o.text) {
    const Encoding encoding = tokenizer.encode(text, o.max_length);
    std::cout << "\n" << in_quotes(text) << "\n        id    offset  token\n";
    for (std::size_t k = 0; k < encoding.ids.size(); ++k)
      std::cout << formatted("  %8lld  %8s  %s\n", encoding.ids[k],
                             concat(encoding.offsets[k][0], "-", encoding.offsets[k][1]),
                             escaped(tokenizer.token(encoding.ids[k])));
  }
  for (const auto& path : o.input) print_measurement(tokenizer, path);
  return 0;
}

int train(const Options& o) {
  HYDRAMIX_CHECK_USAGE(!o.input.empty() && !o.out.empty(),
                       "tokenizer train: expected --input, the text files to learn from, and "
                       "--out, the vocabulary to write.");
  HYDRAMIX_CHECK_USAGE(o.text.empty(), "tokenizer train: ", in_quotes(o.text[0]),
                       " is not expected here. Give text files with --input.");
  check_not_an_input("--out", o.out, {o.input.begin(), o.input.end()});
  TrainerOptions options;
  options.size = o.size;
  options.min_frequency = o.min_frequency;
  options.max_alphabet = o.max_alphabet;
  if (!o.lowercase) options.tokenizer = TokenizerOptions::cased();

  uintmax_t total = 0;
  for (const auto& path : o.input) {
    std::error_code error;
    total += std::filesystem::file_size(path, error);
    HYDRAMIX_CHECK(!error, path, ": ", error.message(), "; expected a text file. Check the name.");
  }
  check_can_be_written(o.out);
  WordCounter words(options.tokenizer);
  {
    const auto bytes = static_cast<int64_t>(total);
    Progress progress("reading", bytes, byte_unit(bytes));
    int64_t read = 0;
    for (const auto& path : o.input)
      for_each_line(path, [&](const std::string& line) {
        words.add(line);
        read += std::ssize(line) + 1;
        progress.advance_to(std::min(read, bytes));  // a packed file holds more than its size
      });
  }
  HYDRAMIX_CHECK(!words.counts().empty(), o.input[0], o.input.size() > 1 ? " and the others" : "",
                 ": no words in it. Give text with --input.");
  std::vector<std::string> tokens;
  {
    Progress progress("joining", o.size, "tokens");
    int64_t shown = 0;
    tokens = train_wordpiece(words, options, [&](int64_t count) {
      for (; shown < count; ++shown) progress.advance();
    });
  }
  const auto tokenizer = Tokenizer::from_tokens(tokens, options.tokenizer, o.out);
  if (std::filesystem::path(o.out).extension() == ".json") {
    tokenizer.save(o.out);
  } else {
    std::string text;
    for (const auto& token : tokens) text += token + "\n";
    write_file(o.out, text);
  }
  std::cout << "wrote " << o.out << ": " << tokens.size() << " tokens from "
            << words.counts().size() << " different words\n";
  return 0;
}

int run(const Options& o) {
  if (o.action == "train") return train(o);
  if (o.action == "encode") return encode(o);
  if (o.action == "decode") return decode(o);
  return inspect(o);
}

}  // namespace

Command tokenizer_command() {
  return make_command<Options>(
      "tokenizer", "learn a WordPiece vocabulary, encode and decode text", run,
      "Examples:\n"
      "  hydramix tokenizer train --input a.txt,b.txt --out vocab.txt --size 30522\n"
      "  hydramix tokenizer encode --vocab vocab.txt \"Hello, world!\"\n"
      "  hydramix tokenizer encode --vocab vocab.txt --jsonl texts.jsonl > ids.jsonl\n"
      "  hydramix tokenizer decode --vocab vocab.txt 7592 2088\n"
      "  hydramix tokenizer inspect --vocab vocab.txt \"unaffable\"\n"
      "encode prints a JSON object per text with ids, tokens, offsets (in characters of the "
      "text) and type_ids, equal to those of the Hugging Face tokenizer.");
}

}  // namespace hydramix
