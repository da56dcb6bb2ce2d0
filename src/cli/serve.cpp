// SPDX-License-Identifier: Apache-2.0
// hydramix serve: models behind HTTP (docs/serving.md).
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/cores.h"
#include "base/json_reader.h"
#include "cli/commands.h"
#include "hydramix/error.h"
#include "models/device.h"
#include "serve/host_names.h"
#include "serve/served_model.h"
#include "serve/server.h"

namespace hydramix {
namespace {

constexpr FileKind kKeyFile{"an API key", 4096};
constexpr int64_t kCpuBatchTokens = 2048, kGpuBatchTokens = 16384;

struct ServeOptions {
  std::vector<std::string> models;
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string device = "auto";
  std::string api_key, api_key_file;
  std::string cors_origin;
  std::vector<std::string> host_names;
  std::string runs;
  std::string prompts_file;
  bool auto_truncate = false;
  bool access_log = true;
  int64_t http_threads = 2;
  int64_t tokenizer_threads = 0;
  serve::Limits limits;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("models", self.models, Positional{}, Required{},
      "folders of models of texts or images, of classifiers or of runs; NAME=FOLDER gives a name");
    v("host", self.host, "address to listen on; 0.0.0.0: all of the machine");
    v("port", self.port, Range{0, 65535}, "port to listen on; 0: any that is free");
    v("device", self.device, Choices{"auto", "cpu", "cuda"},
      "where to compute; auto: a GPU if any");
    v("api_key", self.api_key,
      "key that requests must send as Authorization: Bearer KEY; other users of the machine can "
      "read it in the list of processes");
    v("api_key_file", self.api_key_file, "file that holds the key, in place of --api-key");
    v("cors_origin", self.cors_origin,
      "site whose pages may use the server, for example https://example.org, or *");
    v("host_names", self.host_names,
      "names of the server that requests may have as Host, beside addresses and localhost; unless "
      "given every name is allowed, but with a --host of this machine alone none");
    v("runs", self.runs, "folder of training runs to show");
    v("prompts_file", self.prompts_file,
      "JSON file with the texts that a request's prompt_name puts before its inputs: {\"NAME\": "
      "\"TEXT\"}, or the config_sentence_transformers.json of a model");
    v("auto_truncate", self.auto_truncate, "cut texts that are too long, unless a request says no");
    v("access_log", self.access_log, "write a JSON line for every request to stderr");
    v("http_threads", self.http_threads, Range{1, 256}, "threads that read and write");
    v("tokenizer_threads", self.tokenizer_threads, Range{0, 256},
      "threads that tokenize and format answers; 0: one per core, at most 8");
    serve::Limits::fields(self.limits, v);
  }
};

std::string key_of(const ServeOptions& options) {
  HYDRAMIX_CHECK_USAGE(options.api_key.empty() || options.api_key_file.empty(),
                       "serve: give --api-key or --api-key-file, not both.");
  if (options.api_key_file.empty()) return options.api_key;
  auto key = read_file(options.api_key_file, kKeyFile);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  HYDRAMIX_CHECK_USAGE(!key.empty(), "serve: ", options.api_key_file, " is empty; expected a key.");
  return key;
}

std::optional<std::vector<std::string>> host_names_of(const ServeOptions& options) {
  if (options.host_names.empty() && !serve::is_loopback(options.host)) return {};
  return options.host_names;
}

std::map<std::string, std::string> prompts_of(const std::string& file) {
  std::map<std::string, std::string> prompts;
  if (file.empty()) return prompts;
  auto texts = read_json(file, kConfigFile);
  if (texts.is_object() && texts.contains("prompts")) texts = texts["prompts"];
  HYDRAMIX_CHECK(texts.is_object(), "serve: ", file, ": expected {\"NAME\": \"TEXT\", ...}.");
  for (const auto& [name, text] : texts.items()) {
    HYDRAMIX_CHECK(text.is_string(), "serve: ", file, ": the prompt '", name, "' is not a text.");
    prompts[name] = text.get<std::string>();
  }
  return prompts;
}

int serve_models(const ServeOptions& options) {
  const bool on_gpu = choose_device(options.device, 0).is_cuda();
  serve::ServerOptions all{
      .host = options.host,
      .port = options.port,
      .http_threads = options.http_threads,
      .access_log = options.access_log,
      .service = {.limits = options.limits,
                  .api_key = key_of(options),
                  .cors_origin = options.cors_origin,
                  .host_names = host_names_of(options),
                  .runs = options.runs,
                  .prompts = prompts_of(options.prompts_file),
                  .auto_truncate = options.auto_truncate,
                  .tokenizer_threads = options.tokenizer_threads > 0 ? options.tokenizer_threads
                                                                     : std::min(core_count(), 8),
                  .computing_threads = on_gpu ? 2 : 1,
                  .max_batch_tokens = options.limits.max_batch_tokens > 0
                                          ? options.limits.max_batch_tokens
                                          : (on_gpu ? kGpuBatchTokens : kCpuBatchTokens),
                  .device = on_gpu ? "cuda" : "cpu",
                  .version = HYDRAMIX_VERSION}};
  HYDRAMIX_CHECK_USAGE(options.runs.empty() || std::filesystem::is_directory(options.runs),
                       "serve: --runs ", options.runs, " is not a folder.");
  const TextModelOptions model_options{.device = all.service.device,
                                       .batch_tokens = all.service.max_batch_tokens,
                                       .for_serving = true};
  serve::ModelTable models(
      serve::model_places(options.models), [&](const serve::ModelPlace& place) {
        auto model = serve::open_served_model(place.name, place.folder, model_options);
        serve::warm_up(model);
        return model;
      });
  serve::Server server(all, models, serve::compute_works);
  server.run([&] {
    for (const auto& model : models.all())
      std::fprintf(stderr, "%s: %s, mixer %s, %lld parameters\n", model->name.c_str(),
                   model->kind.c_str(), model->mixer.c_str(),
                   static_cast<long long>(model->parameters));
    std::fprintf(stderr, "listening on http://%s:%d\n", options.host.c_str(), server.port());
  });
  return 0;
}

}  // namespace

Command serve_command() {
  return make_command<ServeOptions>(
      "serve", "serve models over HTTP", serve_models,
      "Examples:\n"
      "  hydramix serve runs/demo/hydra\n"
      "  hydramix serve english=runs/base sst2=runs/sst2 --host 0.0.0.0 --api-key-file key.txt\n"
      "  curl -s localhost:8080/embed -d '{\"inputs\": [\"A dog runs.\"]}'\n"
      "Routes, limits and figures are in docs/serving.md. SIGTERM answers what was accepted and "
      "ends; SIGHUP opens the models again. TLS is left to a proxy.");
}

}  // namespace hydramix
