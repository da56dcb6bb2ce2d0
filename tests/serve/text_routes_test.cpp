// SPDX-License-Identifier: Apache-2.0
// The text routes as functions: bodies in, answers out, with a model that computes nothing.
#include "serve/text_routes.h"

#include <nlohmann/json.hpp>

#include "fake_model.h"
#include "serve/numbers.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using nlohmann::json;
using test::fake_context;

json answer_to(PrepareRequest prepare, const std::string& body,
               const RouteContext& context = fake_context()) {
  const auto prepared = prepare(body, context);
  return json::parse(prepared.answer(prepared.work ? test::fake_results(*prepared.work)
                                                   : std::vector<WorkResult>{}));
}

// The status and the message of the error.
std::string refusal(PrepareRequest prepare, const std::string& body,
                    const RouteContext& context = fake_context()) {
  try {
    prepare(body, context);
  } catch (const HttpError& error) {
    return concat(error.status(), " ", error.what());
  }
  return "accepted";
}

void expect_refusal(PrepareRequest prepare, const std::string& body, const std::string& part,
                    const RouteContext& context = fake_context()) {
  const auto said = refusal(prepare, body, context);
  EXPECT_EQ(said.substr(0, 3), part.substr(0, 3)) << body << ": " << said;
  EXPECT_NE(said.find(part.substr(4)), std::string::npos) << body << ": " << said;
}

TEST(TextRoutes, EmbedAnswersOneVectorPerText) {
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": "w3", "normalize": false})"),
            json::parse("[[3, 8]]"));
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": ["w3", "w1 w2"], "normalize": false})"),
            json::parse("[[3, 8], [4, 7]]"));
  const auto unit = answer_to(prepare_embed, R"({"inputs": ["w3"], "model": "fake"})");
  EXPECT_FLOAT_EQ(unit[0][0].get<float>(), 3 / std::sqrt(73.0F));
  const auto prompted =
      answer_to(prepare_embed, R"({"inputs": "w3", "prompt_name": "query", "normalize": false})");
  EXPECT_EQ(prompted, json::parse("[[4, 8]]"));
}

TEST(TextRoutes, DimensionsAreTheFirstEntriesScaledAgain) {
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": "w3", "dimensions": 1})"), json::parse("[[1]]"));
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": "w3", "dimensions": 1, "normalize": false})"),
            json::parse("[[3]]"));
  const auto openai = answer_to(prepare_openai_embeddings, R"({"input": "w3", "dimensions": 1})");
  EXPECT_EQ(openai["data"][0]["embedding"], json::parse("[1]"));
  for (const auto prepare : {prepare_embed, prepare_openai_embeddings})
    for (const int dimensions : {0, 3})
      expect_refusal(prepare,
                     concat(R"({"inputs": "w3", "input": "w3", "dimensions": )", dimensions, "}"),
                     "400 whole number from 1 to 2");
}

TEST(TextRoutes, EmbedTakesTokenIdsBesideTexts) {
  const auto text = answer_to(prepare_embed, R"({"inputs": "w1 w2"})");
  // [CLS] and [SEP] are put around the ids, or are there.
  for (const char* ids : {"[6, 7]", "[[6, 7]]", "[2, 6, 7, 3]"})
    EXPECT_EQ(answer_to(prepare_embed, concat("{\"inputs\": ", ids, "}")), text) << ids;
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": [[6, 7], "w1 w2"]})"),
            json::array({text[0], text[0]}));
  EXPECT_EQ(answer_to(prepare_embed_all, R"({"inputs": [5]})"),
            answer_to(prepare_embed_all, R"({"inputs": "w0"})"));
  expect_refusal(prepare_embed, R"({"inputs": [25]})", "422 0 to 24");
  expect_refusal(prepare_embed, R"({"inputs": [5, "w1"]})", "422 token id \"w1\"");
  expect_refusal(prepare_embed, R"({"inputs": [[5]], "prompt_name": "query"})", "422 prompt_name");
  EXPECT_EQ(refusal(prepare_embed, R"({"inputs": [5,5,5,5,5,5,5,5], "truncate": true})"),
            "accepted");
}

TEST(TextRoutes, EmptyTextsAndIdsAreRefused) {
  for (const auto prepare : {prepare_embed, prepare_embed_all, prepare_openai_embeddings})
    for (const char* inputs : {R"("")", R"(["w1", ""])", "[[5], []]"})
      for (const char* prompt : {"", R"(, "prompt_name": "query")"})
        expect_refusal(prepare,
                       concat(R"({"inputs": )", inputs, R"(, "input": )", inputs, prompt, "}"),
                       "400 is empty");
}

TEST(TextRoutes, UnknownKeysAreIgnoredButSlipsAreNot) {
  EXPECT_EQ(answer_to(prepare_embed, R"({"inputs": "w3", "normalize": false, "whatever": [1]})"),
            json::parse("[[3, 8]]"));
  EXPECT_EQ(refusal(prepare_predict, R"({"inputs": "w1", "parameters": {"top_k": 1}})",
                    fake_context("classes")),
            "accepted");
  EXPECT_EQ(refusal(prepare_openai_embeddings,
                    R"({"input": "w1", "user": "me", "input_type": "query", "priority": 1})"),
            "accepted");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "normalise": true})",
                 "400 unknown key \"normalise\". Did you mean 'normalize'?");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "Truncate": true})", "400 'truncate'");
  expect_refusal(prepare_similarity, R"({"inputs": ["w1"], "parameters": {"truncat": true}})",
                 "400 'parameters.truncate'");
  // Some clients send the names of two interfaces.
  EXPECT_EQ(refusal(prepare_embed, R"({"inputs": "w1", "input": "w1"})"), "accepted");
  const std::string long_key(1 << 20, 'x');
  EXPECT_EQ(refusal(prepare_embed, concat(R"({"inputs": "w1", ")", long_key, R"(": 1})")),
            "accepted");
}

TEST(TextRoutes, LongTextsAreCutOnRequestOnly) {
  const std::string text = "w1 w2 w3 w4 w5 w6 w7 w8";  // 10 tokens of 8
  expect_refusal(prepare_embed, R"({"inputs": ")" + text + R"("})", "422 more than 8 tokens");
  EXPECT_EQ(answer_to(prepare_embed,
                      R"({"inputs": ")" + text + R"(", "truncate": true, "normalize": false})"),
            json::parse("[[8, 11]]"));
  auto context = fake_context();
  context.auto_truncate = true;
  EXPECT_EQ(refusal(prepare_embed, R"({"inputs": ")" + text + R"("})", context), "accepted");
  context.limits.max_request_tokens = 5;
  expect_refusal(prepare_embed, R"({"inputs": ["w1", "w2"]})", "422 --max-request-tokens", context);
}

TEST(TextRoutes, BadBodiesAreNamed) {
  expect_refusal(prepare_embed, "", "400 is not JSON");
  expect_refusal(prepare_embed, "[1]", "400 expected an object");
  expect_refusal(prepare_embed, "{}", "400 'inputs' is missing");
  expect_refusal(prepare_embed, R"({"inputs": 3})", "400 of the type number");
  expect_refusal(prepare_embed, R"({"inputs": []})", "400 empty list");
  expect_refusal(prepare_embed, R"({"inputs": ["w1", 2]})", "400 'inputs[1]'");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "inputs": "w2"})", "400 twice");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "normalize": 1})", "400 true or false");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "model": "other"})", "404 other");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "prompt_name": "x"})", "422 query");
  expect_refusal(prepare_embed, R"({"inputs": "w1", "truncation_direction": "Left"})",
                 "400 on the right");
  expect_refusal(prepare_embed, "{\"inputs\": \"\xff\"}", "400 is not JSON");
  std::string many = R"({"inputs": ["w1")";
  for (int i = 0; i < 32; ++i) many += R"(, "w1")";
  expect_refusal(prepare_embed, many + "]}", "422 --max-client-batch-size");
  expect_refusal(prepare_embed, std::string(100000, '['), "400 ");
}

TEST(TextRoutes, EmbedAllHasARowPerToken) {
  EXPECT_EQ(answer_to(prepare_embed_all, R"({"inputs": ["w0"]})"),
            json::parse("[[[2, 0.5], [5, 0.5], [3, 0.5]]]"));
}

TEST(TextRoutes, SimilarityAnswersAListOrASquare) {
  const auto list =
      answer_to(prepare_similarity,
                R"({"inputs": {"source_sentence": "w1", "sentences": ["w1", "w1 w2 w3"]}})");
  ASSERT_EQ(list.size(), 2);
  EXPECT_NEAR(list[0].get<double>(), 1, 1e-6);
  const auto square = answer_to(prepare_similarity, R"({"inputs": ["w1", "w1 w2 w3"]})");
  EXPECT_EQ(square["similarities"][0][1], list[1]);
  EXPECT_EQ(square["similarities"][1][0], list[1]);
  expect_refusal(prepare_similarity, R"({"inputs": {"sentences": ["w1"]}})", "400 source_sentence");
  expect_refusal(prepare_similarity, R"({"inputs": ["w1"], "parameters": 1})", "400 parameters");
  expect_refusal(prepare_similarity, R"({"inputs": ["w1"], "parameters": {}, "truncate": true})",
                 "400 truncate");
}

TEST(TextRoutes, OpenAiTakesTextsAndIdsAndAnswersFloatsOrBase64) {
  const auto text = answer_to(prepare_openai_embeddings, R"({"input": "w1 w2", "user": "me"})");
  EXPECT_EQ(text["object"], "list");
  EXPECT_EQ(text["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(text["data"][0]["index"], 0);
  // [CLS] and [SEP] are put around the ids, or are there.
  for (const char* ids : {"[6, 7]", "[[6, 7]]", "[2, 6, 7, 3]"})
    EXPECT_EQ(answer_to(prepare_openai_embeddings, concat("{\"input\": ", ids, "}")), text) << ids;
  const auto encoded =
      answer_to(prepare_openai_embeddings, R"({"input": "w1 w2", "encoding_format": "base64"})");
  const float x = text["data"][0]["embedding"][0], y = text["data"][0]["embedding"][1];
  const float both[] = {x, y};  // this machine is little-endian
  EXPECT_EQ(encoded["data"][0]["embedding"],
            base64({reinterpret_cast<const uint8_t*>(both), sizeof both}));
  expect_refusal(prepare_openai_embeddings, R"({"input": [25]})", "422 0 to 24");
  expect_refusal(prepare_openai_embeddings, R"({"input": [-1]})", "422 token id -1");
  expect_refusal(prepare_openai_embeddings, R"({"input": [1.5]})", "422 token id 1.5");
  expect_refusal(prepare_openai_embeddings, R"({"input": [[5], true]})", "400 'input[1]'");
  expect_refusal(prepare_openai_embeddings, R"({"input": []})", "400 empty");
  expect_refusal(prepare_openai_embeddings, R"({"input": [5,5,5,5,5,5,5]})", "422 more than 8");
  expect_refusal(prepare_openai_embeddings, R"({"input": "w1", "encoding_format": "x"})",
                 "400 base64");
}

TEST(TextRoutes, OpenAiTakesAsManyTextsAsOpenAi) {
  auto context = fake_context();
  const auto request = [](int texts) {
    std::string inputs = "\"w1\"";
    for (int i = 1; i < texts; ++i) inputs += ",\"w1\"";
    return concat("{\"input\": [", inputs, "]}");
  };
  EXPECT_EQ(answer_to(prepare_openai_embeddings, request(2048), context)["data"].size(), 2048U);
  expect_refusal(prepare_openai_embeddings, request(2049), "422 --max-openai-inputs", context);
  // 5462 x 3 tokens are more than another route takes.
  context.limits.max_openai_inputs = 10'000;
  EXPECT_EQ(refusal(prepare_openai_embeddings, request(5462), context), "accepted");
  context.limits.max_openai_tokens = 300;
  EXPECT_EQ(refusal(prepare_openai_embeddings, request(100), context), "accepted");
  expect_refusal(prepare_openai_embeddings, request(101), "422 --max-openai-tokens", context);
}

TEST(TextRoutes, PredictAnswersTheLikeliestLabelFirst) {
  const auto classes = fake_context("classes");
  const auto labels =
      json::parse(R"([{"score": 0.75, "label": "yes"}, {"score": 0.25, "label": "no"}])");
  EXPECT_EQ(answer_to(prepare_predict, R"({"inputs": "w1"})", classes), labels);
  EXPECT_EQ(answer_to(prepare_predict, R"({"inputs": ["w1", "w2"]})", classes), labels);
  EXPECT_EQ(answer_to(prepare_predict, R"({"inputs": [["w1"], ["w2", "w3"]]})", classes),
            json::array({labels, labels}));
  EXPECT_EQ(
      answer_to(prepare_predict, R"({"inputs": "w1", "raw_scores": true})", classes)[0]["score"],
      6.0);
  expect_refusal(prepare_predict, R"({"inputs": [["w1", "w2", "w3"]]})", "400 inputs[0]", classes);
  expect_refusal(prepare_predict, R"({"inputs": "w1"})", "422 hydramix finetune");
  const auto score = answer_to(prepare_predict, R"({"inputs": "w1"})", fake_context("score"));
  EXPECT_EQ(score, json::parse(R"([{"score": 6.0, "label": "score"}])"));
  const auto tags = answer_to(prepare_predict, R"({"inputs": "w1 w2"})", fake_context("tokens"));
  EXPECT_EQ(tags[1], json::parse(R"({"word": "w2", "label": "yes", "score": 0.75})"));
  expect_refusal(prepare_predict, R"({"inputs": "w1 w1 w1 w1 w1 w1 w1"})", "422 more than 8 tokens",
                 fake_context("tokens"));
}

TEST(TextRoutes, RerankAnswersTheBestTextFirst) {
  const auto answer =
      answer_to(prepare_rerank, R"({"query": "w1", "texts": ["w2", "w9"], "return_text": true})",
                fake_context("score"));
  EXPECT_EQ(answer, json::parse(R"([{"index": 1, "score": 14.0, "text": "w9"},
                                    {"index": 0, "score": 7.0, "text": "w2"}])"));
  const auto cosines = answer_to(prepare_rerank, R"({"query": "w1", "texts": ["w1 w2 w3", "w1"]})",
                                 fake_context("pairs"));
  EXPECT_EQ(cosines[0]["index"], 1);
  EXPECT_NEAR(cosines[0]["score"].get<double>(), 1, 1e-6);
  expect_refusal(prepare_rerank, R"({"query": "w1", "texts": ["w2"]})", "422 model of pairs");
}

TEST(TextRoutes, TheMainRouteFollowsTheKindOfTheModel) {
  const std::string text = R"({"inputs": "w3", "normalize": false})";
  for (const char* kind : {"masked-lm", "pairs"})
    EXPECT_EQ(answer_to(prepare_main, text, fake_context(kind)), json::parse("[[3, 8]]")) << kind;
  const std::string label = R"({"inputs": "w3", "model": "fake"})";
  EXPECT_EQ(answer_to(prepare_main, label, fake_context("classes"))[0]["label"], "yes");
  const std::string query = R"({"query": "w1", "texts": ["w2", "w9"]})";
  EXPECT_EQ(answer_to(prepare_main, query, fake_context("score"))[0]["index"], 1);
  expect_refusal(prepare_main, "[", "400 the body");
  expect_refusal(prepare_main, "", "400 the body");
  expect_refusal(prepare_main, R"({"inputs": []})", "400 empty", fake_context("images"));
  expect_refusal(prepare_main, R"({"model": "none"})", "404 no model none");
}

TEST(TextRoutes, FillMaskNeedsAMask) {
  const auto answer = answer_to(prepare_fill_mask, R"({"inputs": "w1 [MASK]", "top": 1})");
  EXPECT_EQ(answer, json::parse(R"([{"text": "w1 [MASK]", "masks":
                                     [[{"token": "w1", "id": 6, "probability": 0.5}]]}])"));
  expect_refusal(prepare_fill_mask, R"({"inputs": "w1"})", "422 no [MASK]");
  expect_refusal(prepare_fill_mask, R"({"inputs": "[MASK]", "top": 0})", "400 from 1 to 1000");
  expect_refusal(prepare_fill_mask, R"({"inputs": "[MASK]", "top": 18446744073709551615})",
                 "400 from 1 to 1000");
  expect_refusal(prepare_fill_mask, R"({"inputs": "[MASK]"})", "422 pretrained",
                 fake_context("classes"));
}

// The fake vocabulary has 25 tokens, so that a larger top asks for 25 words.
TEST(TextRoutes, FillMaskLimitsTheWordsOfAllMasks) {
  auto context = fake_context();
  auto model = test::fake_model();
  model->embed_length = model->longest = 0;
  context.model = [model](const std::string&, std::string_view) { return model; };
  const auto request = [](int masks, int top) {
    std::string text;
    for (int i = 0; i < masks; ++i) text += "[MASK] ";
    return concat(R"({"inputs": ")", text, R"(", "top": )", top, "}");
  };
  EXPECT_EQ(refusal(prepare_fill_mask, request(4000, 1000), context), "accepted");
  expect_refusal(prepare_fill_mask, request(4001, 1000), "422 expected at most 100000 words",
                 context);
  EXPECT_EQ(refusal(prepare_fill_mask, request(10'000, 10), context), "accepted");
  expect_refusal(prepare_fill_mask, request(10'001, 10), "422 10 words for each of 10001 [MASK]",
                 context);
}

TEST(TextRoutes, PredictLimitsTheWordsThatAreCut) {
  auto context = fake_context("tokens");
  context.limits.max_request_tokens = 16;
  const auto request = [](int words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "w1 ";
    return concat(R"({"inputs": [[")", text, R"("], ["w1"]], "truncate": true})");
  };
  EXPECT_EQ(answer_to(prepare_predict, request(15), context)[0].size(), 15U);
  expect_refusal(prepare_predict, request(16), "422 more than 16 words", context);
}

TEST(TextRoutes, TheMatrixIsTheSumOfItsParts) {
  const auto one = answer_to(prepare_matrix, R"({"inputs": "w1", "layer": 1, "head": 2})");
  EXPECT_EQ(one["tokens"], json::parse(R"(["[CLS]", "w1", "[SEP]"])"));
  EXPECT_EQ(one["whole"], json::parse("[[1,2,3],[4,5,6],[7,8,9]]"));
  EXPECT_EQ(one["forward"], json::parse("[[0,0,0],[4,0,0],[7,8,0]]"));
  EXPECT_EQ(one["backward"], json::parse("[[0,2,3],[0,0,6],[0,0,0]]"));
  EXPECT_EQ(one["diagonal"], json::parse("[1,5,9]"));
  EXPECT_EQ(one["ranks"]["below"].size(), 2);
  const auto all = answer_to(prepare_matrix, R"({"inputs": "w1 w2 w3", "max_tokens": 4})");
  EXPECT_EQ(all["thumbnails"][0][0]["data"], "fw==");
  EXPECT_EQ(all["cut"], true);
  EXPECT_EQ(all["tokens"].size(), 4);
  expect_refusal(prepare_matrix, R"({"inputs": "w1", "layer": 1})", "400 both");
  expect_refusal(prepare_matrix, R"({"inputs": "w1", "layer": 2, "head": 1})", "400 from 0 to 1");
}

TEST(TextRoutes, TokenizeAndDecodeAreInverse) {
  const auto tokens = answer_to(prepare_tokenize, R"({"inputs": "w1 w2"})");
  EXPECT_EQ(tokens[0][1],
            json::parse(R"({"id": 6, "text": "w1", "special": false, "start": 0, "stop": 2})"));
  EXPECT_EQ(
      tokens[0][0],
      json::parse(R"({"id": 2, "text": "[CLS]", "special": true, "start": null, "stop": null})"));
  EXPECT_EQ(tokens[0][3]["special"], true);
  const auto unknown = answer_to(prepare_tokenize, R"({"inputs": "other"})");
  EXPECT_EQ(unknown[0][1],
            json::parse(R"({"id": 1, "text": "other", "special": false, "start": 0, "stop": 5})"));
  // The piece of the text, whatever the tokenizer makes of it. Places count characters.
  const auto piece = answer_to(prepare_tokenize, R"({"inputs": "\u00e4\ud83d\ude00 W1"})");
  EXPECT_EQ(piece[0][2],
            json::parse(R"({"id": 6, "text": "W1", "special": false, "start": 3, "stop": 5})"));
  const auto prompted = answer_to(prepare_tokenize, R"({"inputs": "w1", "prompt_name": "query"})");
  EXPECT_EQ(prompted[0][2]["start"], 3);
  const auto bare = answer_to(prepare_tokenize, R"({"inputs": "w1", "add_special_tokens": false})");
  EXPECT_EQ(bare[0].size(), 1);
  EXPECT_EQ(answer_to(prepare_decode, R"({"ids": [2, 6, 7, 3]})"), json::parse(R"(["w1 w2"])"));
  EXPECT_EQ(answer_to(prepare_decode, R"({"ids": [[6], [7]]})"), json::parse(R"(["w1", "w2"])"));
  expect_refusal(prepare_decode, R"({"ids": [99]})", "422 0 to 24");
  expect_refusal(prepare_decode, R"({"ids": []})", "400 empty");
  expect_refusal(prepare_decode, R"({"ids": [[1], 2]})", "400 something else");
}

TEST(TextRoutes, NumbersGiveTheirBitsBack) {
  for (const float value : {0.1F, -1e-38F, 3.4028235e38F, 1e-45F, 0.0F}) {
    std::string text;
    append_number(text, value);
    EXPECT_EQ(std::stof("0") + json::parse(text).get<float>(), value) << text;
  }
  EXPECT_EQ(base64({}), "");
  const uint8_t bytes[] = {0, 255, 16, 131};
  EXPECT_EQ(base64(std::span(bytes, 4)), "AP8Qgw==");
  EXPECT_EQ(base64(std::span(bytes, 2)), "AP8=");
}

}  // namespace
}  // namespace hydramix::serve
