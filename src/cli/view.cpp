// SPDX-License-Identifier: Apache-2.0
// hydramix view: the page of the server for one run or one model.
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "hydramix/error.h"
#include "models/device.h"
#include "serve/served_model.h"
#include "serve/server.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

struct ViewOptions {
  std::string folder;
  int64_t port = 0;
  std::string device = "auto";

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("folder", self.folder, Positional{}, Required{},
      "folder of a run, of a model or of a classifier");
    v("port", self.port, Range{0, 65535}, "port of this machine; 0: any that is free");
    v("device", self.device, Choices{"auto", "cpu", "cuda"},
      "where to compute; auto: a GPU if any");
  }
};

// A run that has only begun has curves, but nothing to open yet.
bool has_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const char* part : {"model.safetensors", "model/model.safetensors"})
    if (fs::exists(folder / part, ignored)) return true;
  const auto checkpoints = folder / "checkpoints";
  return fs::is_directory(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored);
}

int view(const ViewOptions& options) {
  const fs::path folder = options.folder;
  const bool run = fs::is_regular_file(folder / "metrics.jsonl"), model = has_weights(folder);
  HYDRAMIX_CHECK_USAGE(run || model, "view: ", options.folder,
                       ": is neither a run (no metrics.jsonl) nor a model (no "
                       "model.safetensors). Give the folder of one.");
  constexpr int64_t kBatchTokens = 2048;
  const bool on_gpu = choose_device(options.device, 0).is_cuda();
  const serve::ServerOptions all{.port = options.port,
                                 .http_threads = 1,
                                 .access_log = false,
                                 .service = {.host_names = std::vector<std::string>{},
                                             .runs = run ? folder : fs::path(),
                                             .auto_truncate = true,
                                             .tokenizer_threads = 1,
                                             .max_batch_tokens = kBatchTokens,
                                             .device = on_gpu ? "cuda" : "cpu",
                                             .version = HYDRAMIX_VERSION}};
  const std::vector<std::string> names{options.folder};
  serve::ModelTable models(model ? serve::model_places(names) : std::vector<serve::ModelPlace>{},
                           [&](const serve::ModelPlace& place) {
                             return serve::open_served_model(
                                 place.name, place.folder,
                                 {.device = all.service.device, .batch_tokens = kBatchTokens});
                           });
  serve::Server server(all, models, serve::compute_works);
  server.run([&] {
    std::printf("http://127.0.0.1:%d/%s\nOpen it in a browser; Ctrl-C ends.\n", server.port(),
                model ? "" : "#runs");
    std::fflush(stdout);
  });
  return 0;
}

}  // namespace

Command view_command() {
  return make_command<ViewOptions>(
      "view", "look at a run or a model in a browser", view,
      "Examples:\n"
      "  hydramix view runs/demo/hydra\n"
      "  hydramix view runs/tiny --port 8080\n"
      "Serves the page of hydramix serve to this machine alone and prints its address: matrices, "
      "masks, similarities, labels, and the curves of a run while it trains (docs/page.md).");
}

}  // namespace hydramix
