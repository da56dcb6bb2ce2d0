// SPDX-License-Identifier: Apache-2.0
// POST /: the main route of a model, as text-embeddings-inference has it.
#include "serve/route_parts.h"

namespace hydramix::serve {

PreparedRequest prepare_main(std::string_view text, const RouteContext& context) {
  // Other bodies are images, or errors of the route below.
  const auto start = text.find_first_not_of(" \t\r\n");
  const bool is_object = start != std::string_view::npos && text[start] == '{';
  const auto name = is_object ? RequestBody(text).text("model", "") : "";
  const auto model = context.model(name, "/");
  if (model->kind == "images") return prepare_classify(text, context);
  if (model->kind == "masked-lm" || model->kind == "pairs") return prepare_embed(text, context);
  if (answers(*model, "/rerank")) return prepare_rerank(text, context);
  return prepare_predict(text, context);
}

}  // namespace hydramix::serve
