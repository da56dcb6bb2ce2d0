// SPDX-License-Identifier: Apache-2.0
#include "python/tokenizer_class.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include "base/read_file.h"

namespace hydramix {
namespace {

Tokenizer parse_tokenizer(const std::string& text, bool lowercase, const std::string& origin) {
  return Tokenizer::parse(text, origin, lowercase ? TokenizerOptions() : TokenizerOptions::cased());
}

// The Python class checks the arguments, because a method's errors are always RuntimeErrors there.

// Pairs in parallel, as Tokenizer::encode_batch() encodes single texts.
std::vector<Encoding> encode_pairs(const Tokenizer& tokenizer,
                                   const std::vector<std::string>& texts,
                                   const std::vector<std::string>& pairs, int64_t max_length) {
  std::vector<Encoding> encodings(texts.size());
  at::parallel_for(0, static_cast<int64_t>(texts.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      encodings[i] = tokenizer.encode_pair(texts[i], pairs[i], max_length);
  });
  return encodings;
}

}  // namespace

TokenizerClass::TokenizerClass(std::string text, bool lowercase, const std::string& origin)
    : text_(std::move(text)),
      lowercase_(lowercase),
      tokenizer_(parse_tokenizer(text_, lowercase, origin)) {}

c10::intrusive_ptr<TokenizerClass> TokenizerClass::load(const std::string& path, bool lowercase) {
  return c10::make_intrusive<TokenizerClass>(read_file(path, kTokenizerFile), lowercase, path);
}

TokenizerClass::Batch TokenizerClass::encode(const std::vector<std::string>& texts,
                                             const std::vector<std::string>& pairs,
                                             int64_t max_length, int64_t threads) const {
  const auto encodings = pairs.empty()
                             ? tokenizer_.encode_batch(texts, max_length, static_cast<int>(threads))
                             : encode_pairs(tokenizer_, texts, pairs, max_length);
  std::vector<int64_t> ids, types, places, offsets{0};
  for (const auto& encoding : encodings) {
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    types.insert(types.end(), encoding.type_ids.begin(), encoding.type_ids.end());
    for (const auto& place : encoding.offsets)
      places.insert(places.end(), place.begin(), place.end());
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  const auto tensor = [](const std::vector<int64_t>& values) {
    return torch::tensor(values, torch::kInt64);
  };
  return {tensor(ids), tensor(types), tensor(offsets), tensor(places).view({-1, 2})};
}

std::string TokenizerClass::decode(const std::vector<int64_t>& ids, bool skip_special) const {
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  return tokenizer_.decode(narrow, skip_special);
}

void register_tokenizer(torch::Library& m) {
  using Self = c10::intrusive_ptr<TokenizerClass>;
  m.class_<TokenizerClass>("Tokenizer")
      .def(torch::init<std::string, bool, std::string>())
      .def("encode",
           [](const Self& self, const std::vector<std::string>& texts,
              const std::vector<std::string>& pairs, int64_t max_length,
              int64_t threads) { return self->encode(texts, pairs, max_length, threads); })
      .def("decode", [](const Self& self, const std::vector<int64_t>& ids,
                        bool skip_special) { return self->decode(ids, skip_special); })
      .def("size", [](const Self& self) { return self->tokenizer().size(); })
      .def("token", [](const Self& self,
                       int64_t id) { return self->tokenizer().token(static_cast<int32_t>(id)); })
      // -1: not in the vocabulary
      .def("find",
           [](const Self& self, const std::string& token) {
             return static_cast<int64_t>(self->tokenizer().find(token).value_or(-1));
           })
      // [PAD], [UNK], [CLS], [SEP], [MASK]
      .def("special",
           [](const Self& self) {
             const auto& s = self->tokenizer().special();
             return std::vector<int64_t>{s.pad, s.unknown, s.cls, s.sep, s.mask};
           })
      .def("fingerprint", [](const Self& self) { return self->tokenizer().fingerprint(); })
      .def("save", [](const Self& self, const std::string& path) { self->tokenizer().save(path); })
      .def("text", [](const Self& self) { return self->text(); })
      .def("lowercase", [](const Self& self) { return self->lowercase(); });
  m.def("load_tokenizer(str path, bool lowercase) -> __torch__.torch.classes.hydramix.Tokenizer",
        [](const std::string& path, bool lowercase) {
          return TokenizerClass::load(path, lowercase);
        });
}

}  // namespace hydramix
