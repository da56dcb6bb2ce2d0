// SPDX-License-Identifier: Apache-2.0
#include "serve/route_parts.h"

#include <algorithm>
#include <numeric>

#include "base/quotes.h"
#include "base/spelling.h"
#include "models/unit_length.h"
#include "serve/http_error.h"

namespace hydramix::serve {

std::shared_ptr<const ModelFacts> chosen_model(RequestBody& body, const RouteContext& context,
                                               std::string_view route) {
  auto model = context.model(body.text("model", ""), route);
  if (!model->tokenizer && !answers(*model, route)) refuse_route(*model, route, "a model of texts");
  return model;
}

bool wants_truncation(RequestBody& body, const RouteContext& context) {
  auto direction = body.text("truncation_direction", "right");
  std::transform(direction.begin(), direction.end(), direction.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (direction != "right")
    throw bad_request("'truncation_direction' is ", in_quotes(clipped(direction, 40)),
                      "; texts are cut on the right only.");
  return body.flag("truncate", context.auto_truncate);
}

std::string chosen_prompt(RequestBody& body, const RouteContext& context) {
  const auto name = body.text("prompt_name", "");
  if (name.empty()) return "";
  const auto found = context.prompts.find(name);
  if (found != context.prompts.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& prompt : context.prompts) known.push_back(prompt.first);
  throw invalid("there is no prompt ", in_quotes(clipped(name, 80)), "; the server has ",
                known.empty() ? "none (--prompts-file)" : join(known), ".");
}

std::vector<Encoding> encode_within(
    std::size_t count, const Lengths& lengths,
    const std::function<Encoding(std::size_t text, int64_t max_length)>& encode_one) {
  std::vector<Encoding> encodings;
  int64_t tokens = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // One token more than is allowed shows that a text is too long; the rest need not be made.
    const bool limited = lengths.text > 0 && lengths.text < lengths.request;
    const int64_t most = limited ? lengths.text : lengths.request;
    Encoding encoding;
    try {
      encoding = encode_one(i, lengths.truncate && limited ? most : most + 1);
    } catch (const HttpError&) {
      throw;
    } catch (const Error& error) {
      throw invalid("text ", i + 1, " of ", count, ": ", error.what());
    }
    if (limited && std::ssize(encoding.ids) > most)
      throw invalid(
          "text ", i + 1, " of ", count, " has more than ", most,
          " tokens, which is the model's length. Shorten it, or send \"truncate\": true.");
    tokens += std::ssize(encoding.ids);
    if (tokens > lengths.request)
      throw invalid("the texts have more than ", lengths.request, " tokens together (",
                    lengths.request_flag, "). Send them in several requests.");
    encodings.push_back(std::move(encoding));
  }
  return encodings;
}

std::vector<Encoding> encode_texts(const ModelFacts& model, std::span<const std::string> texts,
                                   const Lengths& lengths) {
  return encode_within(texts.size(), lengths, [&](std::size_t i, int64_t max_length) {
    return model.tokenizer->encode(texts[i], max_length);
  });
}

std::vector<float> unit_vector(std::vector<float> vector) {
  scale_to_unit_length(vector);
  return vector;
}

double dot_product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<std::size_t> descending(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

nlohmann::ordered_json labels_of(std::span<const double> scores, const ModelFacts& model,
                                 std::size_t most) {
  auto list = nlohmann::ordered_json::array();
  for (const auto k : descending(scores)) {
    if (list.size() == most) break;
    list.push_back({{"score", scores[k]}, {"label", model.labels[k]}});
  }
  return list;
}

void refuse_route(const ModelFacts& model, std::string_view route, std::string_view needed) {
  throw invalid("the model '", model.name, "' is of the kind ", model.kind, "; ", route, " needs ",
                needed, ". GET /info lists what each model answers.");
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace hydramix::serve
