// SPDX-License-Identifier: Apache-2.0
// Routes that answer with labels and scores: /predict and /rerank.
#include <algorithm>
#include <sstream>

#include "models/word_pieces.h"
#include "serve/http_error.h"
#include "serve/route_parts.h"

namespace hydramix::serve {
namespace {

using Json = nlohmann::ordered_json;

struct TextOrPair {
  std::string first;
  std::optional<std::string> second;
};

TextOrPair text_or_pair(const nlohmann::json& value, const std::string& key) {
  if (value.is_string()) return {value.get<std::string>(), {}};
  if (!value.is_array() || value.empty() || value.size() > 2)
    throw bad_request("'", key, "' is not a text, [text], or [text, text].");
  TextOrPair entry{text_of(value[0], key), {}};
  if (value.size() == 2) entry.second = text_of(value[1], key);
  return entry;
}

// A text, a pair, or a list of lists of one or two texts.
std::vector<TextOrPair> texts_or_pairs(const nlohmann::json& value, int64_t most, bool& several) {
  several = value.is_array() && !value.empty() && value.front().is_array();
  if (value.is_array()) check_count(value.size(), "inputs", most);
  if (!several) return {text_or_pair(value, "inputs")};
  std::vector<TextOrPair> entries;
  for (const auto& entry : value)
    entries.push_back(text_or_pair(entry, concat("inputs[", entries.size(), "]")));
  return entries;
}

// A model that compares vectors of two texts has two texts of work for each pair.
Work pair_work(const std::shared_ptr<const ModelFacts>& model, std::span<const TextOrPair> entries,
               const Lengths& lengths) {
  Work work{model, model->kind == "pairs" ? WorkKind::kVectors : WorkKind::kOutputs, {}};
  if (model->kind == "pairs") {
    std::vector<std::string> sides;
    for (const auto& [first, second] : entries) {
      if (!second)
        throw invalid("the model '", model->name, "' compares two texts; give pairs [text, text].");
      sides.push_back(first);
      sides.push_back(*second);
    }
    work.texts =
        encode_texts(*model, sides, {model->embed_length, lengths.request, lengths.truncate});
    return work;
  }
  work.texts = encode_within(entries.size(), lengths, [&](std::size_t i, int64_t max_length) {
    const auto& [first, second] = entries[i];
    if (second && !model->takes_pairs)
      throw invalid("the model '", model->name, "' reads single texts (type_vocab is 1), but text ",
                    i + 1, " is a pair.");
    return second ? model->tokenizer->encode_pair(first, *second, max_length)
                  : model->tokenizer->encode(first, max_length);
  });
  return work;
}

// The score of each entry, for models with one.
std::vector<double> scores_of(std::span<const WorkResult> results, const ModelFacts& model) {
  std::vector<double> scores;
  if (model.kind == "pairs")
    for (std::size_t i = 0; i + 1 < results.size(); i += 2)
      scores.push_back(
          dot_product(unit_vector(results[i].vector), unit_vector(results[i + 1].vector)));
  else
    for (const auto& result : results) scores.push_back(result.outputs.front());
  return scores;
}

PreparedRequest tag_words(const std::shared_ptr<const ModelFacts>& model,
                          const std::vector<TextOrPair>& entries, bool several,
                          const Lengths& lengths) {
  std::vector<std::vector<std::string>> sentences;
  int64_t word_count = 0;  // the answer has all of them, also those that are cut
  for (const auto& [first, second] : entries) {
    if (second) throw invalid("the model '", model->name, "' tags words of single texts.");
    std::istringstream stream(first);
    sentences.emplace_back();
    for (std::string word; stream >> word;) {
      if (++word_count > lengths.request)
        throw invalid("the texts have more than ", lengths.request,
                      " words together (--max-request-tokens). Send them in several requests.");
      sentences.back().push_back(word);
    }
  }
  std::vector<std::vector<int64_t>> places(sentences.size());
  Work work{model, WorkKind::kOutputs, {}};
  work.texts = encode_within(sentences.size(), lengths, [&](std::size_t i, int64_t max_length) {
    auto pieces = word_pieces(sentences[i], *model->tokenizer, max_length);
    places[i] = std::move(pieces.places);
    // A word that did not fit was left out, so that the length does not show it.
    if (!lengths.truncate &&
        std::ssize(word_pieces(sentences[i], *model->tokenizer, 0).ids) >= max_length)
      throw invalid("text ", i + 1, " has more than ", max_length - 1,
                    " tokens. Shorten it, or send \"truncate\": true.");
    Encoding encoding;
    encoding.type_ids.assign(pieces.ids.size(), 0);
    encoding.ids = std::move(pieces.ids);
    return encoding;
  });
  return {model->name, std::move(work),
          [model, sentences, places, several](std::span<const WorkResult> results) {
            auto answer = Json::array();
            const std::size_t tags = model->labels.size();
            for (std::size_t i = 0; i < results.size(); ++i) {
              auto words = Json::array();
              for (std::size_t w = 0; w < sentences[i].size(); ++w) {
                Json word{{"word", sentences[i][w]}, {"label", ""}, {"score", 0.0}};
                if (places[i][w] >= 0) {
                  const auto row =
                      std::span(results[i].shares)
                          .subspan(static_cast<std::size_t>(places[i][w]) * tags, tags);
                  const auto best = std::max_element(row.begin(), row.end());
                  word["label"] = model->labels[static_cast<std::size_t>(best - row.begin())];
                  word["score"] = *best;
                }
                words.push_back(std::move(word));
              }
              answer.push_back(std::move(words));
            }
            return json_text(several ? answer : answer.front());
          }};
}

}  // namespace

PreparedRequest prepare_predict(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/predict");
  if (model->kind == "masked-lm") refuse_route(*model, "/predict", "a model of hydramix finetune");
  bool several = false;
  const auto entries =
      texts_or_pairs(body.required("inputs"), context.limits.max_client_batch_size, several);
  const bool raw = body.flag("raw_scores", false);
  const Lengths lengths{model->predict_length, context.limits.max_request_tokens,
                        wants_truncation(body, context)};
  body.finish();
  if (model->kind == "tokens") return tag_words(model, entries, several, lengths);
  return {model->name, pair_work(model, entries, lengths),
          [model, several, raw](std::span<const WorkResult> results) {
            auto answer = Json::array();
            if (model->labels.empty())
              for (const double score : scores_of(results, *model))
                answer.push_back(Json::array({{{"score", score}, {"label", "score"}}}));
            else
              for (const auto& result : results)
                answer.push_back(labels_of(raw ? result.outputs : result.shares, *model));
            return json_text(several ? answer : answer.front());
          }};
}

PreparedRequest prepare_rerank(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/rerank");
  const bool scores = model->kind == "score" && model->takes_pairs;
  if (model->kind != "pairs" && !scores)
    refuse_route(*model, "/rerank", "a model of pairs with one score");
  const auto query = text_of(body.required("query"), "query");
  const auto texts =
      texts_of(body.required("texts"), "texts", context.limits.max_client_batch_size);
  const bool return_text = body.flag("return_text", false);
  // text-embeddings-inference puts a sigmoid over scores without this flag, because its models are
  // trained on labels 0 and 1. Ours are trained on the scores themselves, or give cosines.
  body.flag("raw_scores", true);
  const Lengths lengths{model->predict_length, context.limits.max_request_tokens,
                        wants_truncation(body, context)};
  body.finish();
  std::vector<TextOrPair> entries;
  for (const auto& second : texts) entries.push_back({query, second});
  return {model->name, pair_work(model, entries, lengths),
          [model, return_text, texts](std::span<const WorkResult> results) {
            const auto all = scores_of(results, *model);
            auto answer = Json::array();
            for (const auto i : descending(all)) {
              Json entry{{"index", i}, {"score", all[i]}};
              if (return_text) entry["text"] = texts[i];
              answer.push_back(std::move(entry));
            }
            return json_text(answer);
          }};
}

}  // namespace hydramix::serve
