// SPDX-License-Identifier: Apache-2.0
// The routes of models, as functions: a body becomes work for a model, and the model's results
// become the answer. No sockets, no threads, no LibTorch.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/limits.h"
#include "serve/work.h"

namespace hydramix::serve {

// The part of the server that the routes use.
struct RouteContext {
  Limits limits;
  bool auto_truncate = false;
  std::map<std::string, std::string> prompts = {};
  // The model of a name. Without a name the first that answers the route, or else the first. An
  // HttpError if there is none.
  std::function<std::shared_ptr<const ModelFacts>(const std::string& name, std::string_view route)>
      model;
};

struct PreparedRequest {
  std::string model;         // its name, for the log
  std::optional<Work> work;  // none where the answer needs no model's computation
  // The body of the answer, from one result per text or image of the work.
  std::function<std::string(std::span<const WorkResult>)> answer;
};

// Throws an HttpError for a request that cannot be answered.
using PrepareRequest = PreparedRequest (*)(std::string_view body, const RouteContext& context);

PreparedRequest prepare_embed(std::string_view body, const RouteContext& context);
PreparedRequest prepare_embed_all(std::string_view body, const RouteContext& context);
PreparedRequest prepare_similarity(std::string_view body, const RouteContext& context);
PreparedRequest prepare_predict(std::string_view body, const RouteContext& context);
PreparedRequest prepare_rerank(std::string_view body, const RouteContext& context);
PreparedRequest prepare_fill_mask(std::string_view body, const RouteContext& context);
PreparedRequest prepare_matrix(std::string_view body, const RouteContext& context);
PreparedRequest prepare_tokenize(std::string_view body, const RouteContext& context);
PreparedRequest prepare_decode(std::string_view body, const RouteContext& context);
PreparedRequest prepare_openai_embeddings(std::string_view body, const RouteContext& context);

PreparedRequest prepare_classify(std::string_view body, const RouteContext& context);

// /embed, /predict, /rerank or /classify, by the kind of the model.
PreparedRequest prepare_main(std::string_view body, const RouteContext& context);

// The routes above that a model answers.
std::vector<std::string> routes_of(const ModelFacts& model);
bool answers(const ModelFacts& model, std::string_view route);

}  // namespace hydramix::serve
