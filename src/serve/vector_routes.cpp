// SPDX-License-Identifier: Apache-2.0
// Routes that answer with vectors, or with cosines of them: /embed, /embed_all, /similarity,
// /v1/embeddings.
#include <algorithm>
#include <cstring>

#include "base/quotes.h"
#include "serve/http_error.h"
#include "serve/numbers.h"
#include "serve/route_parts.h"

namespace hydramix::serve {
namespace {

constexpr int64_t kMostTokenNumbers = 1 << 22;  // of an answer of /embed_all: 50 MB of text

// The keys that all routes of vectors have.
struct VectorOptions {
  std::string prompt;
  Lengths lengths;
};

VectorOptions vector_options(const ModelFacts& model, RequestBody& body,
                             const RouteContext& context) {
  auto prompt = chosen_prompt(body, context);
  return {std::move(prompt),
          {model.embed_length, context.limits.max_request_tokens, wants_truncation(body, context)}};
}

// Reads "dimensions": how many entries of a vector are kept.
std::size_t kept_entries(RequestBody& body, const ModelFacts& model) {
  return static_cast<std::size_t>(body.integer("dimensions", model.width, 1, model.width));
}

std::vector<float> first_entries(std::vector<float> vector, std::size_t count, bool normalize) {
  vector.resize(std::min(count, vector.size()));
  return normalize ? unit_vector(std::move(vector)) : vector;
}

// The inputs of a request. Each is a text, or the token ids of one: a list. `value` is such an
// input, or a list of them.
std::vector<const nlohmann::json*> inputs_of(const nlohmann::json& value, const std::string& key,
                                             int64_t most,
                                             std::string_view flag = "--max-client-batch-size") {
  const bool is_one =
      value.is_string() || (value.is_array() && !value.empty() && value.front().is_number());
  if (!is_one && !value.is_array())
    throw bad_request("'", key, "' is of the type ", value.type_name(),
                      "; expected a text, a list of token ids, or a list of these.");
  std::vector<const nlohmann::json*> inputs;
  if (is_one) {
    inputs.push_back(&value);
  } else {
    check_count(value.size(), key, most, flag);
    for (const auto& entry : value) inputs.push_back(&entry);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = *inputs[i];
    if (!input.is_string() && !input.is_array())
      throw bad_request("'", key, "[", i, "]' is of the type ", input.type_name(),
                        "; expected a text or a list of token ids.");
    if (input.is_string() ? input.get_ref<const std::string&>().empty() : input.empty())
      throw HttpError(400, "empty",
                      concat("text ", i + 1, " of ", inputs.size(),
                             " is empty. Leave it out, or write something."));
  }
  return inputs;
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

Work work_of(const std::shared_ptr<const ModelFacts>& model, WorkKind kind,
             std::span<const nlohmann::json* const> inputs, const VectorOptions& options) {
  // Not as structured bindings, which clang 14 cannot capture.
  const auto& prompt = options.prompt;
  const auto& lengths = options.lengths;
  Work work{model, kind, {}};
  work.texts = encode_within(inputs.size(), lengths, [&](std::size_t i, int64_t max_length) {
    const auto& input = *inputs[i];
    if (input.is_array() && !prompt.empty())
      throw invalid("text ", i + 1, " of ", inputs.size(),
                    " has token ids, which 'prompt_name' puts no text before.");
    auto encoding =
        input.is_array()
            ? encoding_of_ids(*model, input, max_length, lengths.truncate)
            : model->tokenizer->encode(prompt + input.get_ref<const std::string&>(), max_length);
    encoding.offsets = {};  // a large request may wait long, and its vectors need none
    return encoding;
  });
  return work;
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

struct OpenAiAnswer {
  std::string model;
  bool as_base64;
  std::size_t dimensions;
  int64_t tokens;
};

std::string openai_text(const OpenAiAnswer& answer, std::span<const WorkResult> results) {
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i > 0) text += ',';
    text += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    const auto vector = first_entries(results[i].vector, answer.dimensions, /*normalize=*/true);
    if (answer.as_base64)
      text += '"' + little_endian_base64(vector) + '"';
    else
      append_list(text, vector);
    text += '}';
  }
  const auto count = std::to_string(answer.tokens);
  return text + R"(],"model":)" + json_text(answer.model) + R"(,"usage":{"prompt_tokens":)" +
         count + R"(,"total_tokens":)" + count + "}}";
}

}  // namespace

PreparedRequest prepare_embed(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/embed");
  const bool normalize = body.flag("normalize", true);
  const auto dimensions = kept_entries(body, *model);
  const auto inputs =
      inputs_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const auto options = vector_options(*model, body, context);
  body.finish();
  return {model->name, work_of(model, WorkKind::kVectors, inputs, options),
          [normalize, dimensions](std::span<const WorkResult> results) {
            std::string answer = "[";
            for (const auto& result : results) {
              if (answer.size() > 1) answer += ',';
              append_list(answer, first_entries(result.vector, dimensions, normalize));
            }
            return answer + "]";
          }};
}

PreparedRequest prepare_embed_all(std::string_view text, const RouteContext& context) {
  RequestBody body(text);
  const auto model = chosen_model(body, context, "/embed_all");
  const auto inputs =
      inputs_of(body.required("inputs"), "inputs", context.limits.max_client_batch_size);
  const auto options = vector_options(*model, body, context);
  body.finish();
  auto work = work_of(model, WorkKind::kTokenVectors, inputs, options);
  if (work.tokens() * model->width > kMostTokenNumbers)
    throw invalid("the vectors of ", work.tokens(), " tokens have ", work.tokens() * model->width,
                  " numbers together; expected at most ", kMostTokenNumbers,
                  ". Send the texts in several requests.");
  return {model->name, std::move(work),
          [width = model->width](std::span<const WorkResult> results) {
            std::string answer = "[";
            for (const auto& result : results) {
              if (answer.size() > 1) answer += ',';
              append_rows(answer, result.token_vectors, static_cast<std::size_t>(width));
            }
            return answer + "]";
          }};
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
  for (const char* key : {"prompt_name", "truncate"})
    if (more != nullptr && body.find(key) != nullptr)
      throw bad_request("'", key, "' belongs inside 'parameters'.");
  const auto options = vector_options(*model, more == nullptr ? body : parameters, context);
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
  for (auto& one : texts) one.insert(0, options.prompt);
  PreparedRequest prepared{
      model->name,
      Work{model, WorkKind::kVectors, encode_texts(*model, texts, options.lengths)},
      {}};
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
  const auto dimensions = kept_entries(body, *model);
  auto options = vector_options(*model, body, context);
  body.finish();
  const auto& limits = context.limits;
  options.lengths.request = limits.max_openai_tokens;
  options.lengths.request_flag = "--max-openai-tokens";
  const auto inputs = inputs_of(input, "input", limits.max_openai_inputs, "--max-openai-inputs");
  auto work = work_of(model, WorkKind::kVectors, inputs, options);
  const OpenAiAnswer answer{model->name, format == "base64", dimensions, work.tokens()};
  return {model->name, std::move(work),
          [answer](std::span<const WorkResult> results) { return openai_text(answer, results); }};
}

}  // namespace hydramix::serve
