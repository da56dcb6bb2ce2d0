// SPDX-License-Identifier: Apache-2.0
// Shared by the routes: choosing the model, tokenising within the limits, unit vectors.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/request_body.h"
#include "serve/text_routes.h"

namespace hydramix::serve {

// The model that the key "model" names. A route of texts refuses a model of images.
std::shared_ptr<const ModelFacts> chosen_model(RequestBody& body, const RouteContext& context,
                                               std::string_view route);

// Reads "truncate", and "truncation_direction", which can only be "right".
bool wants_truncation(RequestBody& body, const RouteContext& context);

// The text of "prompt_name"; empty without one.
std::string chosen_prompt(RequestBody& body, const RouteContext& context);

struct Lengths {
  int64_t text;     // tokens; 0: no limit
  int64_t request;  // tokens of all texts together
  bool truncate;
  std::string_view request_flag = "--max-request-tokens";  // that sets `request`
};

// Calls encode_one(k, max_length) for each text. Answers 422 for too many tokens in all, and for a
// text that is too long and may not be cut.
std::vector<Encoding> encode_within(
    std::size_t count, const Lengths& lengths,
    const std::function<Encoding(std::size_t text, int64_t max_length)>& encode_one);

std::vector<Encoding> encode_texts(const ModelFacts& model, std::span<const std::string> texts,
                                   const Lengths& lengths);

// Scales the vector to length 1; a zero vector stays zero.
std::vector<float> unit_vector(std::vector<float> vector);
double dot_product(std::span<const float> a, std::span<const float> b);

// The indices of the values, largest value first.
std::vector<std::size_t> descending(std::span<const double> values);
// [{"score": ..., "label": ...}, ...], the best first.
nlohmann::ordered_json labels_of(std::span<const double> scores, const ModelFacts& model,
                                 std::size_t most = SIZE_MAX);

// The error 422, which names the kind of the model and what the route needs.
[[noreturn]] void refuse_route(const ModelFacts& model, std::string_view route,
                               std::string_view needed);

// The value as text; bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace hydramix::serve
