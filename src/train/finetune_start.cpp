// SPDX-License-Identifier: Apache-2.0
#include "train/finetune_start.h"

#include "base/fnv.h"
#include "base/formatted.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

// A run of pretraining writes model/ when it is complete.
void check_finished(const fs::path& folder) {
  const bool is_run =
      !fs::exists(folder / "model.safetensors") && fs::is_directory(folder / "checkpoints");
  HYDRAMIX_CHECK(!is_run || fs::exists(folder / "model" / "model.safetensors"), folder.string(),
                 ": is a run of pretraining that is not complete, so its weights may still change. "
                 "Wait for it, or continue it with the command that began it; --unfinished starts "
                 "from its newest checkpoint all the same.");
}

}  // namespace

std::string fingerprint_of(const torch::nn::Module& module) {
  uint64_t hash = kFnvStart;
  for (const auto& [name, weight] : named_weights(module)) {
    const auto w = weight.detach().cpu().contiguous();
    hash = fnv1a(concat(name, " ", w.sizes(), " ", w.dtype()), hash);
    hash = fnv1a({static_cast<const char*>(w.data_ptr()), w.nbytes()}, hash);
  }
  return formatted("%016llx", hash);
}

nlohmann::ordered_json FinetuneStart::fingerprints() const {
  return {{"model", fingerprint_of(*weights)}, {"tokenizer", tokenizer.fingerprint()}};
}

FinetuneStart open_start(const std::filesystem::path& folder, bool unfinished) {
  const auto inner = classifier_folder(folder);
  if (!inner.empty()) {
    const auto classifier = load_classifier(inner);
    return {classifier.model->encoder_options(), classifier.model.ptr(),
            load_model_tokenizer(inner)};
  }
  if (!unfinished) check_finished(folder);
  const auto trained = open_trained_model(folder);
  return {trained.model->options(), trained.model.ptr(), trained.tokenizer};
}

}  // namespace hydramix
