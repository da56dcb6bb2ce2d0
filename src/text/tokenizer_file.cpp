// SPDX-License-Identifier: Apache-2.0
// Tokenizer files: vocab.txt with one token per line, and Hugging Face's tokenizer.json. The latter
// must be exactly BERT's; anything else would give other ids, so it is an Error.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "text/tokenizer_contents.h"
#include "text/unicode.h"

namespace hydramix {
namespace {

using nlohmann::json;

std::vector<std::string> read_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// A value of the file with its path, such as "model.vocab", for errors.
class Key {
 public:
  Key(const json& value, std::string path, const std::string& origin)
      : value_(&value), path_(std::move(path)), origin_(&origin) {}

  // Null where the key is missing.
  Key operator[](const std::string& name) const {
    static const json kNull;
    const bool there = value_->is_object() && value_->contains(name);
    return {there ? value_->at(name) : kNull, path_.empty() ? name : path_ + "." + name, *origin_};
  }
  const json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  void expect(bool condition, const std::string& expected) const {
    HYDRAMIX_CHECK(condition, *origin_, ": ", path_, " is ", in_quotes(value_->dump()),
                   "; expected ", expected, ". Only BERT's WordPiece tokenizers are supported.");
  }
  void expect_text(const std::string& text) const {
    expect(*value_ == json(text), in_quotes(text));
  }
  std::string text() const {
    expect(value_->is_string(), "a text");
    return value_->get<std::string>();
  }
  bool flag(bool otherwise) const {
    if (is_null()) return otherwise;
    expect(value_->is_boolean(), "true or false");
    return value_->get<bool>();
  }
  int64_t number(int64_t otherwise) const {
    if (is_null()) return otherwise;
    expect(value_->is_number_integer() && *value_ >= 0 && *value_ <= 0x7FFFFFFF,
           "a number from 0 to 2147483647");
    return value_->get<int64_t>();
  }
  std::vector<Key> elements() const {
    std::vector<Key> result;
    for (const auto& element : *value_)
      result.emplace_back(element, path_ + "[" + std::to_string(result.size()) + "]", *origin_);
    return result;
  }

 private:
  const json* value_;
  std::string path_;
  const std::string* origin_;
};

TokenizerOptions read_options(const Key& file) {
  TokenizerOptions options;
  const Key normalizer = file["normalizer"], model = file["model"];
  if (!normalizer.is_null()) normalizer["type"].expect_text("BertNormalizer");
  const bool present = !normalizer.is_null();
  options.clean_text = normalizer["clean_text"].flag(present);
  options.space_chinese = normalizer["handle_chinese_chars"].flag(present);
  options.lowercase = normalizer["lowercase"].flag(present);
  options.strip_accents = normalizer["strip_accents"].flag(options.lowercase);
  if (!model["continuing_subword_prefix"].is_null())
    options.prefix = model["continuing_subword_prefix"].text();
  options.longest_word = model["max_input_chars_per_word"].number(options.longest_word);
  return options;
}

// The post-processor must put [CLS] before and [SEP] after a text.
void check_post_processor(const Key& processor) {
  if (processor.is_null()) return;
  if (processor["type"].value() == "BertProcessing") {
    for (const auto& [key, token] : {std::pair{"sep", "[SEP]"}, {"cls", "[CLS]"}}) {
      const Key pair = processor[key];
      pair.expect(pair.value().is_array() && pair.value().size() == 2 && pair.value()[0] == token,
                  std::string("[\"") + token + "\", id]");
    }
    return;
  }
  processor["type"].expect(processor["type"].value() == "TemplateProcessing",
                           "\"BertProcessing\" or \"TemplateProcessing\"");
  const auto check = [&](const char* key, const std::string& expected) {
    const Key list = processor[key];
    list.expect(list.value().is_array(), "a list");
    std::string found;
    for (const Key& element : list.elements()) {
      const bool special = !element["SpecialToken"].is_null();
      const Key part = element[special ? "SpecialToken" : "Sequence"];
      found += (found.empty() ? "" : " ") + std::string(special ? "" : "$") + part["id"].text() +
               ":" + std::to_string(part["type_id"].number(0));
    }
    list.expect(found == expected, expected);
  };
  check("single", "[CLS]:0 $A:0 [SEP]:0");
  check("pair", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1");
}

// The tokens of the model by id, then the tokens that are only added.
std::vector<std::string> read_tokens(const Key& file, std::size_t& model_size,
                                     std::vector<AddedToken>& added) {
  const Key vocabulary = file["model"]["vocab"];
  vocabulary.expect(vocabulary.value().is_object(), "an object of tokens and ids");
  std::vector<std::string> tokens(vocabulary.value().size());
  model_size = tokens.size();
  for (const auto& [token, value] : vocabulary.value().items()) {
    const Key id = vocabulary[token];
    id.expect(value.is_number_unsigned() && value < tokens.size() && !token.empty() &&
                  tokens[value.get<std::size_t>()].empty(),
              "an id below " + std::to_string(tokens.size()) + " that no other token has");
    tokens[value.get<std::size_t>()] = token;
  }
  const Key list = file["added_tokens"];
  list.expect(list.value().is_array() || list.is_null(), "a list");
  for (const Key& token : list.elements()) {
    const auto id = static_cast<std::size_t>(token["id"].number(0x7FFFFFFF));
    const std::string text = token["content"].text();
    token["content"].expect(!text.empty(), "a text that is not empty");
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"})
      token[key].expect(!token[key].flag(false), "false");
    if (id == tokens.size()) tokens.push_back(text);
    token["id"].expect(id < tokens.size() && tokens[id] == text,
                       "the id of " + in_quotes(text) + " in model.vocab, or the next after it");
    added.push_back({text, static_cast<int32_t>(id), token["special"].flag(false)});
  }
  return tokens;
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path, const TokenizerOptions& options) {
  const std::string origin = path.string(), file_text = read_file(path, kTokenizerFile);
  const std::string_view text = without_byte_order_mark(file_text);
  try {
    unicode::check_utf8(text);
  } catch (const Error& error) {
    throw Error(concat(origin, ": ", error.what()));
  }
  HYDRAMIX_CHECK(!text.empty(), origin, ": the file is empty; expected a vocab.txt or a ",
                 "tokenizer.json. Learn a vocabulary with hydramix tokenizer train.");
  if (text[text.find_first_not_of(" \t\r\n") % text.size()] != '{')
    return from_tokens(read_lines(text), options, origin);

  const auto document = parse_json<json>(
      text, origin,
      "A file that begins with '{' is read as a tokenizer.json; expected one, or a "
      "vocab.txt.");
  const Key file(document, "", origin);
  const Key model = file["model"];
  // Files of old versions do not name the type.
  if (!model["type"].is_null()) model["type"].expect_text("WordPiece");
  model["unk_token"].expect_text("[UNK]");
  file["pre_tokenizer"]["type"].expect_text("BertPreTokenizer");
  if (!file["decoder"].is_null()) file["decoder"]["type"].expect_text("WordPiece");
  check_post_processor(file["post_processor"]);
  Contents::Description description;
  description.options = read_options(file);
  description.tokens = read_tokens(file, description.model_size, description.added);
  return Tokenizer(std::make_shared<const Contents>(std::move(description), origin));
}

void Tokenizer::save(const std::filesystem::path& path) const {
  using ordered = nlohmann::ordered_json;
  const TokenizerOptions& o = options();
  ordered file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  auto added = contents_->added.tokens();
  std::sort(added.begin(), added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  file["added_tokens"] = ordered::array();
  for (const auto& token : added)
    file["added_tokens"].push_back({{"id", token.id},
                                    {"content", token.text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", token.special}});
  file["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", o.clean_text},
                        {"handle_chinese_chars", o.space_chinese},
                        {"strip_accents", o.strip_accents},
                        {"lowercase", o.lowercase}};
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  const auto named = [](const char* kind, const char* id, int type) {
    return ordered{{kind, {{"id", id}, {"type_id", type}}}};
  };
  const auto entry = [&](const char* name, int32_t id) {
    return ordered{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  const ordered cls = named("SpecialToken", "[CLS]", 0), sep = named("SpecialToken", "[SEP]", 0);
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {cls, named("Sequence", "A", 0), sep}},
      {"pair",
       {cls, named("Sequence", "A", 0), sep, named("Sequence", "B", 1),
        named("SpecialToken", "[SEP]", 1)}},
      {"special_tokens",
       {{"[CLS]", entry("[CLS]", special().cls)}, {"[SEP]", entry("[SEP]", special().sep)}}}};
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", o.prefix}, {"cleanup", true}};
  // Appended as to a list, because operator[] of an ordered object searches all of it each time.
  ordered::object_t vocabulary;
  for (std::size_t k = 0; k < contents_->model_size; ++k)
    vocabulary.push_back({contents_->tokens[k], k});
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", o.prefix},
                   {"max_input_chars_per_word", o.longest_word},
                   {"vocab", std::move(vocabulary)}};
  write_file(path, file.dump(2) + "\n");
}

}  // namespace hydramix
