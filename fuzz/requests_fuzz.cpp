// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the routes of the server's models: any body is refused with an HttpError, or
// becomes work within the limits whose answer is JSON. The same bytes are read as the parts of a
// header, each by itself.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "serve/fake_model.h"
#include "serve/host_names.h"
#include "serve/http_error.h"
#include "serve/http_message.h"
#include "serve/text_routes.h"

namespace {

using namespace hydramix::serve;

// The low half of the first byte chooses the route, the high half the model.
constexpr unsigned kHalf = 16;
constexpr PrepareRequest kRoutes[] = {
    prepare_embed,  prepare_embed_all,         prepare_similarity, prepare_predict,
    prepare_rerank, prepare_fill_mask,         prepare_matrix,     prepare_tokenize,
    prepare_decode, prepare_openai_embeddings, prepare_classify,   prepare_main};
static_assert(std::size(kRoutes) <= kHalf);
constexpr const char* kKinds[] = {"masked-lm", "classes", "score", "labels",
                                  "tokens",    "pairs",   "images"};

// Calls `read`, which may refuse what it reads.
template <class Read>
void refuse_or_read(const Read& read) {
  try {
    read();
  } catch (const HttpError& error) {
    if (error.status() != 400) __builtin_trap();
  }
}

// The parts of a header.
void read_header_parts(std::string_view text) {
  refuse_or_read([&] { decoded_path(text); });
  refuse_or_read([&] { query_value(text, "after"); });
  refuse_or_read([&] {
    const auto target = parsed_target(text);
    if (!target.authority.empty() && target.path.empty()) __builtin_trap();
  });
  const auto id = request_id(text);
  if (id.empty() || id.size() > 64) __builtin_trap();
  if (host_name(text).size() > text.size()) __builtin_trap();
  is_host_of(text, {"embed.example.org"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto contexts = [] {
    std::vector<RouteContext> made;
    for (const char* kind : kKinds) made.push_back(hydramix::test::fake_context(kind));
    return made;
  }();
  const auto& context = contexts[data[0] / kHalf % std::size(kKinds)];
  const auto route = kRoutes[data[0] % kHalf % std::size(kRoutes)];
  const auto most_tokens = route == prepare_openai_embeddings ? context.limits.max_openai_tokens
                                                              : context.limits.max_request_tokens;
  try {
    const auto prepared = route(body, context);
    std::vector<WorkResult> results;
    if (prepared.work) {
      if (prepared.work->tokens() > most_tokens) __builtin_trap();
      results = hydramix::test::fake_results(*prepared.work);
    }
    if (!nlohmann::json::accept(prepared.answer(results))) __builtin_trap();
  } catch (const HttpError& error) {
    if (error.status() < 400 || error.status() > 499) __builtin_trap();
    if (!nlohmann::json::accept(error_body(error, false))) __builtin_trap();
  }
  read_header_parts(body);
  return 0;
}
