// SPDX-License-Identifier: Apache-2.0
#include "train/pretrain.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/atomic_file.h"
#include "data/token_shards.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "language/language_documents.h"
#include "ops/gpu/graph.h"
#include "train/gemm_rate.h"
#include "train/launch_environment.h"
#include "train/masked_lm.h"

namespace hydramix {
namespace {

const std::string kLanguage = "language";

// ---- the request, checked before any work ----

torch::Device choose_device(const std::string& name, int64_t local_rank) {
  const bool cuda = torch::cuda::is_available();
  HYDRAMIX_CHECK_USAGE(
      name != "cuda" || cuda,
      "device: cuda was asked for, but this LibTorch finds no GPU. Use device=cpu, "
      "or a LibTorch with CUDA on a machine with a GPU.");
  if (name == "cpu" || !cuda) return torch::kCPU;
  // A launcher may show every rank its own GPU alone.
  const auto count = static_cast<int64_t>(torch::cuda::device_count());
  HYDRAMIX_CHECK_USAGE(count == 1 || local_rank < count, "device: this machine runs more ranks (",
                       local_rank + 1, " or more) than it has GPUs (", count,
                       "). Start as many ranks as GPUs.");
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(count == 1 ? 0 : local_rank)};
}

bool choose_bfloat16(const std::string& name, torch::Device device) {
  HYDRAMIX_CHECK_USAGE(name != "bfloat16" || device.is_cuda(),
                       "precision: bfloat16 is for GPUs; on the CPU use float32.");
  return name == "bfloat16" || (name == "auto" && device.is_cuda());
}

void check_lengths(const PretrainOptions& options) {
  const int64_t length = options.data.sequences.max_length;
  const auto& model = options.model;
  HYDRAMIX_CHECK_USAGE(model.positions == 0 || length <= model.positions,
                       "data.sequences.max_length: ", length,
                       " is more than model.positions, which is ", model.positions, ".");
  const auto& mixer = mixer_info(model.block.mixer);
  const int64_t longest = model.block.mixer_options.max_length;
  HYDRAMIX_CHECK_USAGE(mixer.extendable || length <= longest, "data.sequences.max_length: ", length,
                       " is more than model.block.mixer_options.max_length, which is ", longest,
                       "; ", mixer.name, " takes no longer sequences.");
}

Tokenizer open_tokenizer(const DataOptions& data) {
  if (data.train == kLanguage || data.validation == kLanguage) {
    HYDRAMIX_CHECK_USAGE(data.train == data.validation,
                         "data: train and validation must both be the built-in language, or both "
                         "token shards; got '",
                         data.train, "' and '", data.validation, "'.");
    HYDRAMIX_CHECK_USAGE(data.vocab.empty(), "data.vocab: got '", data.vocab,
                         "', but the built-in language has a vocabulary of its own. Leave it out.");
    return language_tokenizer();
  }
  HYDRAMIX_CHECK_USAGE(!data.vocab.empty(),
                       "data.vocab: name the vocab.txt or tokenizer.json that '", data.train,
                       "' was made with.");
  return Tokenizer::load(data.vocab, data.cased ? TokenizerOptions::cased() : TokenizerOptions{});
}

std::unique_ptr<Documents> open_documents(const std::string& name, const DataOptions& data,
                                          Split split, const Tokenizer& tokenizer) {
  if (name == kLanguage)
    return std::make_unique<LanguageDocuments>(
        data.language, split,
        split == Split::kTrain ? data.language_documents : data.evaluation_documents);
  auto shards = std::make_unique<TokenShards>(name);
  shards->check_tokenizer(tokenizer.fingerprint(), "data.vocab " + data.vocab);
  return shards;
}

// ---- the folder ----

// Two runs must not write into one folder. The lock goes with the process, however it ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder) {
    const auto path = folder / ".lock";
    descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    HYDRAMIX_CHECK(descriptor_ >= 0, path.string(),
                   ": cannot be opened. Check that the folder is writable.");
    // A file system without locks is no reason to refuse.
    HYDRAMIX_CHECK(flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK,
                   folder.string(),
                   ": another run is writing into this folder. Wait for it, or choose another "
                   "--out.");
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// What may differ between a run and its continuation: nothing that changes what is computed.
nlohmann::ordered_json what_counts(nlohmann::ordered_json config) {
  config.erase("out");
  config.erase("device");
  for (const char* key : {"micro_batch", "log_every", "checkpoint_every", "keep", "most_skipped",
                          "bucket_megabytes", "timeout", "tensorboard"})
    config["train"].erase(key);
  config["model"].erase("recompute");
  return config;
}

// The first key in which two configurations differ, and both values.
std::string difference(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b,
                       const std::string& path = "") {
  if (a == b) return "";
  if (!a.is_object() || !b.is_object()) return concat(path, " was ", a.dump(), ", is ", b.dump());
  for (const auto& [key, value] : b.items()) {
    const std::string own = path.empty() ? key : path + "." + key;
    const auto found = difference(a.contains(key) ? a[key] : nlohmann::ordered_json(), value, own);
    if (!found.empty()) return found;
  }
  return concat(path.empty() ? "the options" : path, " has other keys");
}

void keep_config(const std::filesystem::path& folder, const PretrainOptions& options,
                 const nlohmann::json& data) {
  const auto config = to_json(options);
  const auto path = folder / "config.json";
  if (std::filesystem::exists(path)) {
    const auto before =
        nlohmann::ordered_json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
    HYDRAMIX_CHECK(before.is_object() && before.contains("train") && before.contains("model"),
                   path.string(), ": is not the configuration of a run. Choose another --out.");
    const auto differs = difference(what_counts(before), what_counts(config));
    HYDRAMIX_CHECK_USAGE(differs.empty(), folder.string(),
                         ": holds a run with other options: ", differs,
                         ". Give the same options to continue it, or choose another --out.");
  }
  const auto data_path = folder / "data.json";
  if (std::filesystem::exists(data_path)) {
    const auto before = nlohmann::json::parse(read_file(data_path), nullptr, false);
    HYDRAMIX_CHECK(before == data, data_path.string(),
                   ": the data that this run began with had other fingerprints than '",
                   options.data.train, "' and '", options.data.validation,
                   "' have now. Bring it back, or choose another --out.");
  }
  write_file(path, config.dump(2) + "\n");
  write_file(data_path, data.dump(2) + "\n");
}

// Whether a step does the same for the same lengths without asking the host: what works on rows
// uploads where they are.
bool can_be_recorded(const BlockOptions& block) {
  return make_mixer(block.mixer, block.heads(), block.mixer_options)->packs() &&
         !block.mixer_options.learn_initial_states;
}

}  // namespace

PretrainResult pretrain(const PretrainOptions& options, const PretrainEvents& events) {
  validate(options);
  check_lengths(options);
  const auto launch = launch_environment();
  HYDRAMIX_CHECK_USAGE(options.train.batch % launch.size == 0, "train.batch: ", options.train.batch,
                       " sequences cannot be divided among ", launch.size,
                       " ranks. Choose a batch that is a multiple of the number of ranks.");
  const auto device = choose_device(options.device, launch.local_rank);
  const bool bfloat16 = choose_bfloat16(options.precision, device);
  // Steps that are recorded need a stream of their own, from the first tensor on.
  std::shared_ptr<void> stream;
  if constexpr (gpu::kBuilt)
    if (device.is_cuda()) stream = std::make_shared<gpu::OwnStream>(device);
  const auto tokenizer = open_tokenizer(options.data);
  HYDRAMIX_CHECK_USAGE(tokenizer.size() <= options.model.vocab,
                       "model.vocab: ", options.model.vocab, " is less than the tokenizer's ",
                       tokenizer.size(), " tokens. Set model.vocab=", tokenizer.size(), ".");
  const auto training = open_documents(options.data.train, options.data, Split::kTrain, tokenizer);
  const auto validation =
      open_documents(options.data.validation, options.data, Split::kValidation, tokenizer);
  const auto seed = static_cast<uint64_t>(options.train.seed);
  const MaskedBatches training_batches(*training, tokenizer, options.data.sequences, seed);
  const MaskedBatches validation_batches(*validation, tokenizer, options.data.sequences, seed);

  torch::manual_seed(seed);
  BertForMaskedLM model(options.model);
  model->to(device);

  const auto communicator = make_communicator({options.train.timeout}, device);
  try {
    communicator->agree("the options", to_json(options).dump());
    communicator->agree("the data", concat(training->fingerprint(), " ", validation->fingerprint(),
                                           " ", tokenizer.fingerprint()));
    const std::filesystem::path folder = options.out;
    std::unique_ptr<FolderLock> lock;
    if (communicator->rank() == 0) {
      std::error_code failure;
      std::filesystem::create_directories(folder, failure);
      HYDRAMIX_CHECK(!failure, folder.string(), ": cannot make this folder: ", failure.message(),
                     ". Choose another --out.");
      lock = std::make_unique<FolderLock>(folder);
      keep_config(folder, options,
                  {{"train", training->fingerprint()}, {"validation", validation->fingerprint()}});
      tokenizer.save(folder / "tokenizer.json");
    }
    MaskedLm task(model, training_batches, *validation, validation_batches,
                  {options.train.micro_batch, options.data.evaluation_documents, options.train.seed,
                   device, bfloat16,
                   /*graphs=*/gpu::kBuilt && bfloat16 && communicator->size() == 1 &&
                       can_be_recorded(options.model.block)});

    PretrainResult result;
    for (const auto& parameter : model->parameters()) result.parameters += parameter.numel();
    TrainEvents forwarded = events;
    forwarded.evaluation = [&](int64_t step, const nlohmann::ordered_json& evaluation) {
      result.evaluation = evaluation;
      if (events.evaluation) events.evaluation(step, evaluation);
    };
    Trainer trainer(task, options.train, *communicator, folder, forwarded);
    if (communicator->rank() == 0 && events.ready)
      events.ready(result.parameters,
                   gemm_rate(device, bfloat16 ? torch::kBFloat16 : torch::kFloat32) *
                       static_cast<double>(communicator->size()));
    result.end = trainer.run();
    if (communicator->rank() == 0 && result.end == Trainer::End::kDone) {
      save_model(folder / "model", model);
      tokenizer.save(folder / "model" / "tokenizer.json");
    }
    communicator->leave();
    return result;
  } catch (const std::exception& error) {
    communicator->abort(error.what());
    throw;
  }
}

}  // namespace hydramix
