// SPDX-License-Identifier: Apache-2.0
// Routes that answer with vectors, or with cosines of them: /embed, /embed_all, /similarity,
// /v1/embeddings.
#include <cstring>

#include "base/quotes.h"
#include "serve/http_error.h"
#include "serve/numbers.h"
#include "serve/route_parts.h"

namespace hydramix::serve {
namespace {

// The work for `texts` with a prompt before each.
PreparedRequest vector_work(const std::shared_ptr<const ModelFacts>& model, WorkKind kind,
                            std::vector<std::string> texts, const std::string& prompt,
                            const Lengths& lengths) {
  for (auto& text : texts) text.insert(0, prompt);
  return {model->name, Work{model, kind, encode_texts(*model, texts, lengths)}, {}};
}

Lengths embed_lengths(const ModelFacts& model, RequestBody& body, const RouteContext& context) {
  return {model.embed_length, context.limits.max_request_tokens, wants_truncation(body, context)};
}

// The ids of a text that the client has tokenised itself. [CLS] and [SEP] are put around them
// where they are missing.
Encoding encoding_of_ids(const ModelFacts& model, const nlohmann::json& ids, int64_t max_length,
                         bool truncate) {
  const auto& special = model.tokenizer->special();
  Encoding encoding;
  for (const auto& id : ids) {
    if (!id.is_number_unsigned() ||
        id.get<uint64_t>() >= static_cast<uint64_t>(model.tokenizer->size()))
      throw invalid("token id ", clipped(id.dump(), 40), " is not one of the vocabulary, 0 to ",
                    model.tokenizer->size() - 1, ".");
    encoding.ids.push_back(id.get<int32_t>());
  }
  if (encoding.ids.empty() || encoding.ids.front() != special.cls)
    encoding.ids.insert(encoding.ids.begin(), special.cls);
  if (encoding.ids.size() < 2 || encoding.ids.back() != special.sep)
    encoding.ids.push_back(special.sep);
  if (truncate && max_length > 0 && std::ssize(encoding.ids) > max_length) {
    encoding.ids.resize(static_cast<std::size_t>(max_length));
    encoding.ids.back() = special.sep;
  }
  encoding.type_ids.assign(encoding.ids.size(), 0);
  return encoding;
}

std::string little_endian_base64(std::span<const float> vector) {
  std::vector<uint8_t> bytes;
  bytes.reserve(vector.size() * 4);
  for (const float value : vector) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return base64(bytes);
}

std::string openai_answer(std::span<const WorkResult> results, const std::string& model,
                          bool as_base64, int64_t tokens) {
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i > 0) text += ',';
    text += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    const auto vector = unit_vector(results[i].vector);
    if (as_base64)
      text += '"' + little_endian_base64(vector) + '"';
    else
      append_list(text, vector);
    text += '}';
  }
  const auto count = std::to_string(tokens);
  return text + R"(],"model":)" + json_text(model) + R"(,"usage":{"prompt_tokens":)" + count +
         R"(,"total_tokens":)" + count + "}}";
}

}  // namespace

PreparedRequest prepare_embed(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/embed");
  const bool normalize = body.flag("normalize", true);
  auto texts = texts_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const auto prompt = chosen_prompt(body, context);
  const auto lengths = embed_lengths(*model, body, context);
  body.finish();
  auto prepared = vector_work(model, WorkKind::kVectors, std::move(texts), prompt, lengths);
  prepared.answer = [normalize](std::span<const WorkResult> results) {
    std::string answer = "[";
    for (const auto& result : results) {
      if (answer.size() > 1) answer += ',';
      append_list(answer, normalize ? unit_vector(result.vector) : result.vector);
    }
    return answer + "]";
  };
  return prepared;
}

PreparedRequest prepare_embed_all(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/embed_all");
  auto texts = texts_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const auto prompt = chosen_prompt(body, context);
  const auto lengths = embed_lengths(*model, body, context);
  body.finish();
  auto prepared = vector_work(model, WorkKind::kTokenVectors, std::move(texts), prompt, lengths);
  prepared.answer = [width = model->width](std::span<const WorkResult> results) {
    std::string answer = "[";
    for (const auto& result : results) {
      if (answer.size() > 1) answer += ',';
      append_rows(answer, result.token_vectors, static_cast<std::size_t>(width));
    }
    return answer + "]";
  };
  return prepared;
}

PreparedRequest prepare_similarity(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/similarity");
  const auto& inputs = body.required("inputs");
  const int64_t most = context.limits.max_client_batch_size;
  // text-embeddings-inference has these in "parameters".
  const auto* more = body.find("parameters");
  if (more != nullptr && !more->is_object())
    throw bad_request("'parameters' is of the type ", more->type_name(), "; expected an object.");
  RequestBody parameters(more == nullptr ? nlohmann::json::object() : *more, "parameters.");
  const auto prompt = chosen_prompt(more == nullptr ? body : parameters, context);
  const auto lengths = embed_lengths(*model, more == nullptr ? body : parameters, context);
  std::vector<std::string> texts;
  const bool from_one = inputs.is_object();
  if (from_one) {
    RequestBody given(inputs, "inputs.");
    texts = texts_of(given.required("sentences"), "inputs.sentences", most);
    texts.insert(texts.begin(), text_of(given.required("source_sentence"), "source_sentence"));
    given.finish();
  } else {
    texts = texts_of(inputs, "inputs", most);
  }
  parameters.finish();
  body.finish();
  auto prepared = vector_work(model, WorkKind::kVectors, std::move(texts), prompt, lengths);
  prepared.answer = [from_one](std::span<const WorkResult> results) {
    std::vector<std::vector<float>> vectors;
    for (const auto& result : results) vectors.push_back(unit_vector(result.vector));
    std::vector<double> cosines;
    for (std::size_t i = 0; i < (from_one ? 1 : vectors.size()); ++i)
      for (std::size_t j = from_one ? 1 : 0; j < vectors.size(); ++j)
        cosines.push_back(dot_product(vectors[i], vectors[j]));
    std::string answer = from_one ? "" : "{\"similarities\":";
    if (from_one)
      append_list(answer, cosines);
    else
      append_rows(answer, cosines, vectors.size());
    return answer + (from_one ? "" : "}");
  };
  return prepared;
}

PreparedRequest prepare_openai_embeddings(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/v1/embeddings");
  const auto& input = body.required("input");
  const auto format = body.text("encoding_format", "float");
  if (format != "float" && format != "base64")
    throw bad_request("'encoding_format' is ", in_quotes(clipped(format, 40)),
                      "; expected \"float\" or \"base64\".");
  body.integer("dimensions", model->width, model->width, model->width);
  body.ignore("user");
  const auto lengths = embed_lengths(*model, body, context);
  body.finish();
  const int64_t most = context.limits.max_client_batch_size;
  // A list of numbers is one text, a list of such lists are several.
  const auto is_ids = [](const nlohmann::json& value) {
    return value.is_array() && !value.empty() && value.front().is_number();
  };
  Work work{model, WorkKind::kVectors, {}};
  if (is_ids(input) || (input.is_array() && !input.empty() && input.front().is_array())) {
    const auto lists = is_ids(input) ? nlohmann::json::array({input}) : input;
    check_count(lists.size(), "input", most);
    for (const auto& ids : lists)
      if (!is_ids(ids)) throw bad_request("'input' has lists of token ids and something else.");
    work.texts = encode_within(lists.size(), lengths, [&](std::size_t i, int64_t max_length) {
      return encoding_of_ids(*model, lists[i], max_length, lengths.truncate);
    });
  } else {
    work.texts = encode_texts(*model, texts_of(input, "input", most), lengths);
  }
  const int64_t tokens = work.tokens();
  return {model->name, std::move(work),
          [name = model->name, as_base64 = format == "base64",
           tokens](std::span<const WorkResult> results) {
            return openai_answer(results, name, as_base64, tokens);
          }};
}

}  // namespace hydramix::serve
