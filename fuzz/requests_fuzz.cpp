// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the routes of the server's models: any body is refused with an HttpError, or
// becomes work within the limits whose answer is JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "serve/fake_model.h"
#include "serve/http_error.h"
#include "serve/http_message.h"
#include "serve/text_routes.h"

namespace {

using namespace hydramix::serve;

// The first byte chooses the route and the model.
constexpr PrepareRequest kRoutes[] = {
    prepare_embed,  prepare_embed_all,         prepare_similarity, prepare_predict,
    prepare_rerank, prepare_fill_mask,         prepare_matrix,     prepare_tokenize,
    prepare_decode, prepare_openai_embeddings, prepare_classify};
constexpr const char* kKinds[] = {"masked-lm", "classes", "score", "labels",
                                  "tokens",    "pairs",   "images"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto contexts = [] {
    std::vector<RouteContext> made;
    for (const char* kind : kKinds) made.push_back(hydramix::test::fake_context(kind));
    return made;
  }();
  const auto& context = contexts[data[0] / std::size(kRoutes) % std::size(kKinds)];
  try {
    const auto prepared = kRoutes[data[0] % std::size(kRoutes)](body, context);
    std::vector<WorkResult> results;
    if (prepared.work) {
      if (prepared.work->tokens() > context.limits.max_request_tokens) __builtin_trap();
      results = hydramix::test::fake_results(*prepared.work);
    }
    if (!nlohmann::json::accept(prepared.answer(results))) __builtin_trap();
  } catch (const HttpError& error) {
    if (error.status() < 400 || error.status() > 499) __builtin_trap();
    if (!nlohmann::json::accept(error_body(error, false))) __builtin_trap();
  }
  try {
    decoded_path(body);
    query_value(body, "after");
    request_id(body);
  } catch (const HttpError&) {
  }
  return 0;
}
