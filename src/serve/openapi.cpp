// SPDX-License-Identifier: Apache-2.0
#include "serve/openapi.h"

#include <nlohmann/json.hpp>

namespace hydramix::serve {
namespace {

using Json = nlohmann::ordered_json;

Json a(const char* type, const char* help, Json otherwise = nullptr) {
  Json schema{{"type", type}, {"description", help}};
  if (!otherwise.is_null()) schema["default"] = std::move(otherwise);
  return schema;
}

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json object(Json properties, const std::vector<std::string>& required = {}) {
  Json schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

const Json kText{{"type", "string"}};
const Json kNumber{{"type", "number"}};
const Json kInteger{{"type", "integer"}};

Json text_or_texts() { return {{"oneOf", Json::array({kText, list_of(kText)})}}; }

// A text, the token ids of one, or a list of these.
Json text_or_ids() {
  const Json one{{"oneOf", Json::array({kText, list_of(kInteger)})}};
  return {{"oneOf", Json::array({kText, list_of(kInteger), list_of(one)})}};
}

Json with_truncation(Json properties) {
  properties["truncate"] = a("boolean", "cut texts that are longer than the model's length");
  properties["truncation_direction"] = a("string", "right: where they are cut", "right");
  return properties;
}

// The keys of most text routes, with more.
Json text_request(Json properties, const std::vector<std::string>& required) {
  properties["model"] = a("string", "name of the model; the first of the server without it");
  return object(with_truncation(std::move(properties)), required);
}

Json content(Json schema, const char* type = "application/json") {
  return {{"content", {{type, {{"schema", std::move(schema)}}}}}};
}

Json operation(const char* name, const char* summary, Json answer,
               std::initializer_list<int> errors = {}) {
  answer["description"] = summary;
  Json responses{{"200", std::move(answer)}};
  for (const int status : errors)
    responses[std::to_string(status)] = {{"$ref", "#/components/responses/Error"}};
  return {{"operationId", name}, {"summary", summary}, {"responses", std::move(responses)}};
}

Json post(const char* name, const char* summary, Json request, Json answer) {
  auto all = operation(name, summary, content(std::move(answer)),
                       {400, 401, 404, 408, 413, 415, 422, 424, 429, 503});
  all["requestBody"] = content(std::move(request));
  all["requestBody"]["required"] = true;
  return {{"post", std::move(all)}};
}

Json get(const char* name, const char* summary, Json answer) {
  return {{"get", operation(name, summary, std::move(answer), {401, 404})}};
}

// A route that needs no key.
Json open_get(const char* name, const char* summary, Json answer) {
  auto all = operation(name, summary, std::move(answer));
  all["security"] = Json::array();
  return {{"get", std::move(all)}};
}

Json parameter(const char* name, const char* place, Json schema) {
  return {{"name", name},
          {"in", place},
          {"required", std::string(place) == "path"},
          {"schema", std::move(schema)}};
}

Json text_paths() {
  Json paths;
  const auto prompt = a("string", "name of a text in --prompts-file to put before each input");
  const auto vector = list_of(kNumber);
  paths["/embed"] =
      post("embed", "A vector for each text",
           text_request({{"inputs", text_or_ids()},
                         {"normalize", a("boolean", "scale vectors to length 1", true)},
                         {"dimensions", a("integer", "entries of a vector that are kept")},
                         {"prompt_name", prompt}},
                        {"inputs"}),
           list_of(vector));
  paths["/embed_all"] =
      post("embed_all", "A vector for each token of each text",
           text_request({{"inputs", text_or_ids()}, {"prompt_name", prompt}}, {"inputs"}),
           list_of(list_of(vector)));
  const auto label = object({{"label", kText}, {"score", kNumber}});
  const auto tag = object({{"word", kText}, {"label", kText}, {"score", kNumber}});
  paths["/predict"] =
      post("predict", "Labels and their probabilities",
           text_request({{"inputs",
                          {{"oneOf", Json::array({kText, list_of(kText), list_of(list_of(kText))})},
                           {"description", "a text, a pair, or a list of lists of 1 or 2 texts"}}},
                         {"raw_scores", a("boolean", "outputs before softmax", false)}},
                        {"inputs"}),
           {{"oneOf", Json::array({list_of(label), list_of(list_of(label)), list_of(tag),
                                   list_of(list_of(tag))})},
            {"description", "with a word: of a model that tags words"}});
  paths["/rerank"] =
      post("rerank", "Texts in the order of their scores with a query",
           text_request({{"query", kText},
                         {"texts", list_of(kText)},
                         {"return_text", a("boolean", "repeat the texts", false)},
                         {"raw_scores", a("boolean", "scores are never transformed", true)}},
                        {"query", "texts"}),
           list_of(object({{"index", kInteger}, {"score", kNumber}, {"text", kText}})));
  paths["/similarity"] =
      post("similarity", "Cosines of texts",
           text_request(
               {{"inputs",
                 {{"oneOf",
                   Json::array({object({{"source_sentence", kText}, {"sentences", list_of(kText)}},
                                       {"source_sentence", "sentences"}),
                                list_of(kText)})}}},
                {"prompt_name", prompt},
                {"parameters", object(with_truncation({{"prompt_name", prompt}}))}},
               {"inputs"}),
           {{"oneOf", Json::array({vector, object({{"similarities", list_of(vector)}})})}});
  const auto word = object({{"token", kText}, {"id", kInteger}, {"probability", kNumber}});
  paths["/fill-mask"] = post(
      "fill_mask", "The likeliest words for every [MASK]",
      text_request({{"inputs", text_or_texts()}, {"top", a("integer", "words", 5)}}, {"inputs"}),
      list_of(object({{"text", kText}, {"masks", list_of(list_of(word))}})));
  for (const char* path : {"/", "/invocations"})
    paths[path] = post(path[1] == '\0' ? "main" : "invocations",
                       "/embed, /predict, /rerank or /classify, by the kind of the model",
                       {{"type", "object"}}, Json::object());
  const Json image{{"type", "string"}, {"format", "byte"}};
  paths["/classify"] = post("classify", "The classes of images, the most probable first",
                            object({{"inputs", {{"oneOf", Json::array({image, list_of(image)})}}},
                                    {"model", kText},
                                    {"top", a("integer", "classes", 5)}},
                                   {"inputs"}),
                            {{"oneOf", Json::array({list_of(label), list_of(list_of(label))})}});
  for (const char* type : {"image/jpeg", "image/png"})
    paths["/classify"]["post"]["requestBody"]["content"][type] = {
        {"schema", {{"type", "string"}, {"format", "binary"}}}};
  const auto thumbnail = object({{"size", kInteger}, {"scale", kNumber}, {"data", kText}});
  paths["/matrix"] = post(
      "matrix", "The matrices that mix the tokens of a text",
      object({{"inputs", kText},
              {"model", kText},
              {"layer", a("integer", "from 1; without it and head: thumbnails of all")},
              {"head", a("integer", "from 1")},
              {"max_tokens", a("integer", "the text is cut after these", 64)}},
             {"inputs"}),
      object({{"tokens", list_of(kText)},
              {"layers", kInteger},
              {"heads", list_of(kInteger)},
              {"thumbnails", list_of(list_of(thumbnail))},
              {"whole", list_of(vector)},
              {"forward", list_of(vector)},
              {"backward", list_of(vector)},
              {"diagonal", vector},
              {"ranks", object({{"below", list_of(kInteger)}, {"above", list_of(kInteger)}})}}));
  const Json place{{"type", "integer"}, {"nullable", true}};  // null for [CLS] and [SEP]
  const auto token = object({{"id", kInteger},
                             {"text", kText},
                             {"special", {{"type", "boolean"}}},
                             {"start", place},
                             {"stop", place}});
  paths["/tokenize"] =
      post("tokenize", "The tokens of texts",
           object({{"inputs", text_or_texts()},
                   {"model", kText},
                   {"prompt_name", prompt},
                   {"add_special_tokens", a("boolean", "with [CLS] and [SEP]", true)}},
                  {"inputs"}),
           list_of(list_of(token)));
  paths["/decode"] = post(
      "decode", "The texts of token ids",
      object({{"ids", {{"oneOf", Json::array({list_of(kInteger), list_of(list_of(kInteger))})}}},
              {"model", kText},
              {"skip_special_tokens", a("boolean", "leave out [CLS] and the like", true)}},
             {"ids"}),
      list_of(kText));
  return paths;
}

Json openai_paths() {
  Json paths;
  paths["/v1/embeddings"] = post(
      "openai_embeddings", "OpenAI's embeddings",
      text_request({{"input", text_or_ids()},
                    {"encoding_format", a("string", "float or base64", "float")},
                    {"dimensions", a("integer", "entries of a vector that are kept")},
                    {"prompt_name", kText}},
                   {"input"}),
      object({{"object", kText},
              {"data", list_of(object(
                           {{"object", kText},
                            {"index", kInteger},
                            {"embedding", {{"oneOf", Json::array({list_of(kNumber), kText})}}}}))},
              {"model", kText},
              {"usage", object({{"prompt_tokens", kInteger}, {"total_tokens", kInteger}})}}));
  paths["/embeddings"] = paths["/v1/embeddings"];
  paths["/embeddings"]["post"]["operationId"] = "embeddings";
  const auto model =
      object({{"id", kText}, {"object", kText}, {"created", kInteger}, {"owned_by", kText}});
  paths["/v1/models"] = get("openai_models", "OpenAI's list of models",
                            content(object({{"object", kText}, {"data", list_of(model)}})));
  paths["/v1/models/{name}"] = get("openai_model", "One of them", content(model));
  paths["/v1/models/{name}"]["get"]["parameters"] = Json::array({parameter("name", "path", kText)});
  return paths;
}

Json server_paths() {
  Json paths;
  const auto status = content(object({{"status", kText}}));
  paths["/health"] = open_get("health", "Whether the process lives and its models compute", status);
  paths["/ping"] = open_get("ping", "The same as /health", status);
  paths["/ready"] = open_get("ready", "Whether requests are answered", status);
  for (const char* path : {"/health", "/ping", "/ready"})
    paths[path]["get"]["responses"]["503"] = {{"$ref", "#/components/responses/Error"}};
  const auto any = content({{"type", "object"}});
  paths["/info"] = get("info", "The models and limits of the server", any);
  paths["/metrics"] = get("metrics", "Figures for Prometheus", content(kText, "text/plain"));
  paths["/stats"] = get("stats", "The same figures as JSON", any);
  paths["/runs"] = get("runs", "The training runs of --runs", any);
  paths["/runs/{name}/metrics"] = get("run_metrics", "Lines of a run's metrics.jsonl", any);
  paths["/runs/{name}/metrics"]["get"]["parameters"] =
      Json::array({parameter("name", "path", kText), parameter("after", "query", kInteger)});
  paths["/reload"] = post("reload", "Open a model again", object({{"model", kText}}),
                          object({{"reloaded", list_of(kText)}}));
  paths["/reload"]["post"]["requestBody"]["required"] = false;
  paths["/openapi.json"] = get("openapi", "This document", any);
  return paths;
}

}  // namespace

const std::string& openapi_document() {
  static const std::string document = [] {
    auto paths = text_paths();
    paths.update(openai_paths());
    paths.update(server_paths());
    auto error = content(object({{"error", kText}, {"error_type", kText}}, {"error"}));
    error["description"] = "What is wrong, and how to fix it; under /v1 in OpenAI's shape";
    return Json{{"openapi", "3.0.3"},
                {"info", {{"title", "HydraMix"}, {"version", "1"}}},
                {"paths", std::move(paths)},
                {"components",
                 {{"responses", {{"Error", std::move(error)}}},
                  {"securitySchemes",
                   {{"key",
                     {{"type", "http"},
                      {"scheme", "bearer"},
                      {"description", "needed on a server that has a key (--api-key)"}}}}}}},
                {"security", Json::array({Json::object(), {{"key", Json::array()}}})}}
        .dump();
  }();
  return document;
}

}  // namespace hydramix::serve
