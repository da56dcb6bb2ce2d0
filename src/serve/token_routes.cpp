// SPDX-License-Identifier: Apache-2.0
// Routes about single tokens: /fill-mask, /matrix, /tokenize, /decode.
#include <algorithm>

#include "base/quotes.h"
#include "serve/http_error.h"
#include "serve/numbers.h"
#include "serve/route_parts.h"

namespace hydramix::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostWords = 1000;          // as in hydramix fill-mask
constexpr int64_t kMostCandidates = 100'000;  // words of an answer, for all [MASK] together
constexpr int64_t kMostMatrixTokens = 256;    // whole, forward and backward have this squared

std::string thumbnail_text(const Thumbnail& thumbnail) {
  std::string text = "{\"size\":" + std::to_string(thumbnail.size) + ",\"scale\":";
  append_number(text, thumbnail.scale);
  const auto* bytes = reinterpret_cast<const uint8_t*>(thumbnail.bytes.data());
  return text + ",\"data\":\"" + base64({bytes, thumbnail.bytes.size()}) + "\"}";
}

// The part of a matrix (L, L) below (sign -1) or above (1) the diagonal; zeros elsewhere.
std::vector<double> triangle(std::span<const double> whole, std::size_t L, int sign) {
  std::vector<double> part(whole.size(), 0.0);
  for (std::size_t i = 0; i < L; ++i)
    for (std::size_t j = sign < 0 ? 0 : i + 1; j < (sign < 0 ? i : L); ++j)
      part[i * L + j] = whole[i * L + j];
  return part;
}

// The members of one matrix, each after a comma.
std::string one_matrix_text(const Matrices& matrices, std::size_t L) {
  std::string text = ",\"whole\":";
  append_rows(text, matrices.whole, L);
  text += ",\"forward\":";
  append_rows(text, triangle(matrices.whole, L, -1), L);
  text += ",\"backward\":";
  append_rows(text, triangle(matrices.whole, L, 1), L);
  std::vector<double> diagonal;
  for (std::size_t i = 0; i < L; ++i) diagonal.push_back(matrices.whole[i * L + i]);
  text += ",\"diagonal\":";
  append_list(text, diagonal);
  return text + ",\"ranks\":" + json_text({{"below", matrices.below}, {"above", matrices.above}});
}

// The byte at which each character of the UTF-8 text begins, and its end.
std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  starts.push_back(text.size());
  return starts;
}

std::string thumbnails_text(const Matrices& matrices) {
  std::string text = ",\"thumbnails\":[";
  for (std::size_t layer = 0; layer < matrices.thumbnails.size(); ++layer) {
    text += layer > 0 ? ",[" : "[";
    for (std::size_t head = 0; head < matrices.thumbnails[layer].size(); ++head)
      text += (head > 0 ? "," : "") + thumbnail_text(matrices.thumbnails[layer][head]);
    text += ']';
  }
  return text + "]";
}

}  // namespace

PreparedRequest prepare_fill_mask(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/fill-mask");
  if (model->kind != "masked-lm") refuse_route(*model, "/fill-mask", "a pretrained model");
  const auto texts =
      texts_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const int64_t top = body.integer("top", 5, 1, kMostWords);
  const Lengths lengths{model->longest, context.limits.max_request_tokens,
                        wants_truncation(body, context)};
  body.finish();
  Work work{model, WorkKind::kWords, encode_texts(*model, texts, lengths), top};
  const int32_t mask = model->tokenizer->special().mask;
  int64_t mask_count = 0;
  for (std::size_t i = 0; i < work.texts.size(); ++i) {
    const auto count = std::count(work.texts[i].ids.begin(), work.texts[i].ids.end(), mask);
    mask_count += count;
    if (count == 0)
      throw invalid("text ", i + 1, " of ", texts.size(), " has no [MASK]",
                    lengths.truncate ? " in the part that is not cut" : "",
                    ". Write it where a word is wanted.");
  }
  if (mask_count * std::min<int64_t>(top, model->tokenizer->size()) > kMostCandidates)
    throw invalid("the answer would have ", top, " words for each of ", mask_count,
                  " [MASK]; expected at most ", kMostCandidates,
                  " words. Ask for a smaller 'top', or send the texts in several requests.");
  return {model->name, std::move(work), [texts, top](std::span<const WorkResult> results) {
            auto answer = Json::array();
            for (std::size_t i = 0; i < results.size(); ++i) {
              auto masks = Json::array();
              for (const auto& words : results[i].words) {
                auto& list = masks.emplace_back(Json::array());
                for (const auto& word : words) {
                  if (std::ssize(list) == top) break;
                  list.push_back(
                      {{"token", word.token}, {"id", word.id}, {"probability", word.probability}});
                }
              }
              answer.push_back({{"text", texts[i]}, {"masks", std::move(masks)}});
            }
            return json_text(answer);
          }};
}

PreparedRequest prepare_matrix(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/matrix");
  const std::string sentence = text_of(body.required("inputs"), "inputs");
  const int64_t most = std::min(
      context.limits.max_request_tokens,
      model->longest > 0 ? std::min(model->longest, kMostMatrixTokens) : kMostMatrixTokens);
  const int64_t tokens = body.integer("max_tokens", std::min<int64_t>(64, most), 3, most);
  const int64_t layer = body.integer("layer", 0, 0, model->layers);
  const int64_t head = body.integer("head", 0, 0, 1 << 20);
  body.finish();
  if ((layer == 0) != (head == 0))
    throw bad_request("give both 'layer' and 'head', for one matrix, or neither, for thumbnails.");
  const auto longer = encode_within(
      1, {0, context.limits.max_request_tokens, false},
      [&](std::size_t, int64_t) { return model->tokenizer->encode(sentence, tokens + 1); });
  const bool cut = std::ssize(longer[0].ids) > tokens;
  Work work{model, WorkKind::kMatrices, {model->tokenizer->encode(sentence, tokens)}};
  work.layer = layer;
  work.head = head;
  std::vector<std::string> words;
  for (const auto id : work.texts[0].ids) words.push_back(model->tokenizer->token(id));
  return {
      model->name, std::move(work),
      [model, words, cut, layer, head](std::span<const WorkResult> results) {
        const auto& matrices = results.front().matrices;
        Json start{{"model", model->name}, {"mixer", model->mixer},   {"tokens", words},
                   {"cut", cut},           {"layers", model->layers}, {"heads", matrices.heads}};
        if (layer > 0) {
          start["layer"] = layer;
          start["head"] = head;
        }
        auto answer = json_text(start);
        answer.pop_back();
        return answer +
               (layer > 0 ? one_matrix_text(matrices, words.size()) : thumbnails_text(matrices)) +
               "}";
      }};
}

PreparedRequest prepare_tokenize(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/tokenize");
  auto texts = texts_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const auto prompt = chosen_prompt(body, context);
  const bool special = body.flag("add_special_tokens", true);
  body.finish();
  for (auto& one : texts) one.insert(0, prompt);
  const auto encodings = encode_texts(*model, texts, {0, context.limits.max_request_tokens, false});
  auto answer = Json::array();
  for (std::size_t t = 0; t < texts.size(); ++t) {
    const auto& encoding = encodings[t];
    const auto starts = character_starts(texts[t]);
    auto& tokens = answer.emplace_back(Json::array());
    const std::size_t around = special ? 0 : 1;  // [CLS] at the start, [SEP] at the end
    for (std::size_t i = around; i + around < encoding.ids.size(); ++i) {
      // As in text-embeddings-inference: those that were added, which have no place in the text.
      if (i == 0 || i + 1 == encoding.ids.size()) {
        tokens.push_back({{"id", encoding.ids[i]},
                          {"text", model->tokenizer->token(encoding.ids[i])},
                          {"special", true},
                          {"start", nullptr},
                          {"stop", nullptr}});
        continue;
      }
      const auto [start, stop] = encoding.offsets[i];
      const auto begin = starts[static_cast<std::size_t>(start)];
      tokens.push_back(
          {{"id", encoding.ids[i]},
           {"text", texts[t].substr(begin, starts[static_cast<std::size_t>(stop)] - begin)},
           {"special", false},
           {"start", start},
           {"stop", stop}});
    }
  }
  return {model->name, {}, [answer](std::span<const WorkResult>) { return json_text(answer); }};
}

PreparedRequest prepare_decode(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/decode");
  const auto& ids = body.required("ids");
  const bool skip = body.flag("skip_special_tokens", true);
  body.finish();
  if (!ids.is_array())
    throw bad_request("'ids' is of the type ", ids.type_name(), "; expected a list.");
  const bool one = ids.empty() || !ids.front().is_array();
  const auto lists = one ? nlohmann::json::array({ids}) : ids;
  check_count(one ? ids.size() : lists.size(), "ids",
              one ? context.limits.max_request_tokens : context.limits.max_client_batch_size);
  auto answer = Json::array();
  for (const auto& list : lists) {
    if (!list.is_array()) throw bad_request("'ids' has lists and something else.");
    if (std::cmp_greater(list.size(), context.limits.max_request_tokens))
      throw invalid("'ids' has ", list.size(), " entries; expected at most ",
                    context.limits.max_request_tokens, " (--max-request-tokens).");
    std::vector<int32_t> numbers;
    for (const auto& id : list) {
      if (!id.is_number_unsigned() ||
          id.get<uint64_t>() >= static_cast<uint64_t>(model->tokenizer->size()))
        throw invalid("token id ", clipped(id.dump(), 40), " is not one of the vocabulary, 0 to ",
                      model->tokenizer->size() - 1, ".");
      numbers.push_back(id.get<int32_t>());
    }
    answer.push_back(model->tokenizer->decode(numbers, skip));
  }
  return {model->name, {}, [answer](std::span<const WorkResult>) { return json_text(answer); }};
}

std::vector<std::string> routes_of(const ModelFacts& model) {
  if (model.kind == "images") return {"/classify"};
  std::vector<std::string> routes{"/embed", "/embed_all", "/similarity"};
  if (model.kind == "masked-lm")
    routes.push_back("/fill-mask");
  else
    routes.push_back("/predict");
  if (model.kind == "pairs" || (model.kind == "score" && model.takes_pairs))
    routes.push_back("/rerank");
  for (const char* route : {"/matrix", "/tokenize", "/decode", "/v1/embeddings"})
    routes.push_back(route);
  return routes;
}

bool answers(const ModelFacts& model, std::string_view route) {
  const auto routes = routes_of(model);
  return std::find(routes.begin(), routes.end(), route) != routes.end();
}

}  // namespace hydramix::serve
