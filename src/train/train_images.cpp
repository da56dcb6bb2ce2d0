// SPDX-License-Identifier: Apache-2.0
#include "train/train_images.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "base/counted.h"
#include "base/json_reader.h"
#include "dist/launch_environment.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "images/image_loader.h"
#include "models/device.h"
#include "models/model_config.h"
#include "ops/gemm_rate.h"
#include "ops/graph.h"
#include "train/finetune_start.h"
#include "train/image_report.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

// ---- the request, checked before any work ----

void check_epochs(const ImageEpochOptions& train) {
  HYDRAMIX_CHECK_USAGE(train.warmup_epochs <= train.epochs,
                       "train.warmup_epochs: ", train.warmup_epochs,
                       " is more than train.epochs, which is ", train.epochs, ". Choose fewer.");
}

void check_pairs(const ImageTrainOptions& options, int64_t ranks) {
  const int64_t share = options.train.steps.batch / ranks;
  if (options.augment.mixup == 0 && options.augment.cutmix == 0) return;
  HYDRAMIX_CHECK_USAGE(share % 2 == 0, "train.batch: the ", share,
                       " images of a step and rank cannot be mixed in pairs. Choose an even "
                       "number, or set augment.mixup and augment.cutmix to 0.");
  const int64_t at_once = options.train.steps.micro_batch;
  HYDRAMIX_CHECK_USAGE(at_once % 2 == 0 || at_once >= share, "train.micro_batch: ", at_once,
                       " images cannot be mixed in pairs. Choose an even number, or set "
                       "augment.mixup and augment.cutmix to 0.");
}

int64_t in_steps(double epochs, int64_t images, int64_t batch) {
  const double in_epoch = static_cast<double>(images) / static_cast<double>(batch);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(epochs * in_epoch - 1e-9)));
}

// The model to start from, with the sizes and classes of this run.
ImageModelOptions continued(const ImageModelOptions& theirs, const ImageModelOptions& given) {
  auto options = theirs;
  options.size = given.size;
  options.classes = given.classes;
  options.stochastic_depth = given.stochastic_depth;
  options.recompute = given.recompute;
  return options;
}

// Options that may differ between a run and its continuation: only those that do not change the
// results.
const RunRules& image_rules() {
  static const RunRules rules{
      free_run_keys({"from", "data.path", "data.validation", "data.workers"}),
      {{"model", later_layer_keys()}}};
  return rules;
}

// Messages of other threads, which the trainer's thread passes on.
class MessageQueue {
 public:
  void add(const std::string& message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(message);
  }
  void pass_on(const std::function<void(const std::string&)>& to) {
    std::vector<std::string> messages;
    {
      const std::lock_guard lock(mutex_);
      messages.swap(messages_);
    }
    if (to)
      for (const auto& message : messages) to(message);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace

// AdamW (0.9, 0.999) and batches of 1024 are the paper's. Its rate is 1e-3 in the table of the
// recipe and 1e-4 in the text; the table's is taken. Epsilon is torch's.
TrainOptions ImageEpochOptions::paper_defaults() {
  TrainOptions options;
  options.batch = 1024;
  options.micro_batch = 128;
  options.optimizer.rate = 1e-3;
  options.optimizer.beta2 = 0.999;
  options.optimizer.epsilon = 1e-8;
  options.optimizer.decay = 0.05;
  options.optimizer.decay_rule = "times_rate";
  options.optimizer.ema = 0.9999;
  options.optimizer.ema_warmup = true;
  return options;
}

int64_t steps_of(const ImageEpochOptions& train, int64_t images) {
  return in_steps(train.epochs, images, train.steps.batch);
}

ImageTrainOptions completed(ImageTrainOptions options, const ImageCollection& training) {
  validate(options);
  check_augment_options(options.augment);
  check_epochs(options.train);
  if (!options.from.empty())
    options.model = continued(load_image_model(image_model_folder(options.from)).model->options(),
                              options.model);
  HYDRAMIX_CHECK_USAGE(options.augment.size == options.model.size,
                       "augment.size: ", options.augment.size, " pixels, but model.size is ",
                       options.model.size, ". Give both the same size.");
  const int64_t classes = std::ssize(training.classes());
  HYDRAMIX_CHECK(classes >= 2, options.data.path, ": has images of ", classes,
                 classes == 1 ? " class" : " classes", "; a classifier needs two or more.");
  HYDRAMIX_CHECK_USAGE(options.model.classes == 0 || options.model.classes == classes,
                       "model.classes: ", options.model.classes, ", but ", options.data.path,
                       " has ", classes, ". Leave it out for those of the data.");
  options.model.classes = classes;
  check_image_model(options.model);

  auto& steps = options.train.steps;
  steps.steps = steps_of(options.train, training.size());
  steps.evaluate_every = in_steps(options.train.evaluate_epochs, training.size(), steps.batch);
  steps.schedule.warmup = options.train.warmup_epochs / options.train.epochs;
  steps.schedule.shape = options.train.shape;
  steps.schedule.final = options.train.final;
  return options;
}

ImageTrainResult train_images(const ImageTrainOptions& given, const ImageTrainEvents& events) {
  const auto launch = launch_environment();
  validate(given);
  check_epochs(given.train);
  HYDRAMIX_CHECK_USAGE(given.train.steps.batch % launch.size == 0,
                       "train.batch: ", given.train.steps.batch, " images cannot be divided among ",
                       launch.size,
                       " ranks. Choose a batch that is a multiple of the number of ranks.");
  check_pairs(given, launch.size);
  const auto device = choose_device(given.device, launch.local_rank);
  const auto precision = choose_precision(given.precision, device);
  auto splits = open_image_splits(given.data);
  const std::shared_ptr<const ImageCollection> training = std::move(splits.train);
  const std::shared_ptr<const ImageCollection> validation = std::move(splits.validation);
  auto options = completed(given, *training);
  auto& micro_batch = options.train.steps.micro_batch;
  if (micro_batch == 0)  // at least a pair, which mixing needs
    micro_batch =
        std::max<int64_t>(2, examples_at_once(options.train.steps, device, options.model.length()));
  const auto seed = static_cast<uint64_t>(options.train.steps.seed);
  // Captured steps need a separate stream, from the first tensor on.
  const OwnStream stream(device);

  const bool first = launch.rank == 0;
  MessageQueue messages;
  const ImageTransform transform(options.augment);
  const auto loader = [&](const std::shared_ptr<const ImageCollection>& images, bool shuffled) {
    const LoadImage load_image = [&, shuffled](const ImageCollection& from, int64_t image,
                                               int64_t epoch, std::span<float> out) {
      if (shuffled)
        transform.train(from, {seed, epoch, image}, out);
      else
        transform.evaluate(from, image, out);
    };
    ImageLoaderOptions how;
    how.values = static_cast<int64_t>(transform.values());
    how.shuffled = shuffled;
    how.seed = seed;
    how.broken_fails = options.data.broken == "fail";
    how.workers = options.data.workers;
    how.memory = [device](int64_t n) { return memory_for_upload(n, device); };
    how.message = [&](const std::string& message) { messages.add(message); };
    return std::make_shared<ImageLoader>(images, load_image, how);
  };
  const auto training_loader = loader(training, true),
             validation_loader = loader(validation, false);

  if (first && events.building) events.building(options, parameter_count(options.model));
  torch::manual_seed(seed);
  ImageModel model(options.model);
  nlohmann::ordered_json data{{"train", training->fingerprint()},
                              {"validation", validation->fingerprint()}};
  if (!options.from.empty()) {
    const auto start = load_image_model(image_model_folder(options.from)).model;
    model->take_weights(named_weights(*start), start->options().grid());
    data["from"] = fingerprint_of(*start);
  }
  check_parameter_groups(*model, options.train.steps.optimizer.groups);
  model->to(device);
  model->set_precision(precision);

  return among_ranks({options.train.steps.timeout}, device, [&](Communicator& communicator) {
    communicator.agree("the options", to_json(options).dump());
    communicator.agree("the data", data.dump());
    const std::filesystem::path folder = options.out;
    std::unique_ptr<RunFolder> run;
    if (first) {
      run = std::make_unique<RunFolder>(folder);
      run->keep(to_json(options), image_rules(), data);
    }
    const auto say = [&](const std::string& message) {
      if (first && events.message) events.message(message);
    };
    ImageTrainingSettings settings;
    settings.training = [&](int64_t n, int64_t count) { return training_loader->load(n, count); };
    settings.validation = [&](int64_t n, int64_t count) {
      return validation_loader->load(n, count);
    };
    settings.validation_images = validation->size();
    settings.name = [&](int64_t number) {
      return training->name(training_loader->image_of(number));
    };
    settings.augment = options.augment;
    settings.batch = options.train.steps.batch;
    settings.micro_batch = options.train.steps.micro_batch;
    settings.seed = options.train.steps.seed;
    settings.device = device;
    settings.graphs = captures_steps(options.model.block, device, precision, communicator);
    settings.message = say;
    ImageTraining task(model, settings);

    ImageTrainResult result;
    for (const auto& parameter : model->parameters()) result.parameters += parameter.numel();
    TrainEvents forwarded = events;
    forwarded.step = [&](const StepReport& report) {
      messages.pass_on(say);
      if (events.step) events.step(report);
    };
    forwarded.evaluation = [&](int64_t step, const nlohmann::ordered_json& evaluation) {
      messages.pass_on(say);
      result.evaluation = evaluation;
      if (events.evaluation) events.evaluation(step, evaluation);
    };
    Trainer trainer(task, options.train.steps, communicator, folder, forwarded);
    if (first && events.ready)
      events.ready(gemm_rate(device, precision) * static_cast<double>(communicator.size()));
    result.end = trainer.run();
    if (!first || result.end != Trainer::End::kDone) return result;
    const int64_t broken = training_loader->broken() + validation_loader->broken();
    if (broken > 0) say(concat(counted(broken, "damaged image"), " left out"));
    const ImageTask about{training->classes(), options.augment.crop_fraction,
                          options.augment.interpolation, options.augment.means,
                          options.augment.deviations};
    write_image_report(folder, training->classes(), task.counts(/*average=*/false),
                       task.counts(/*average=*/true));
    if (trainer.optimizer().average().defined()) {
      trainer.optimizer().swap_average();
      save_image_model(folder / "average", model, about);
      trainer.optimizer().swap_average();
    }
    save_image_model(folder / "model", model, about);
    return result;
  });
}

std::filesystem::path image_model_folder(const std::filesystem::path& path,
                                         const std::string& which) {
  const auto config = path / "config.json";
  HYDRAMIX_CHECK(std::filesystem::is_regular_file(config), path.string(),
                 ": is not the folder of a model: it has no config.json. Give a model or run of "
                 "hydramix train-images.");
  const auto json = try_parse_json(read_file(config, kConfigFile));
  const bool is_run = json.is_object() && json.contains("augment");
  HYDRAMIX_CHECK_USAGE(which == "last" || (is_run && which == "average" &&
                                           std::filesystem::exists(path / "average")),
                       path.string(), ": has no weights '", which,
                       "'; runs of train-images have the last ones, and with "
                       "train.optimizer.ema above 0 an average.");
  if (which == "average") return path / "average";
  if (!is_run) return path;
  HYDRAMIX_CHECK(std::filesystem::exists(path / "model" / "model.safetensors"), path.string(),
                 ": is a run of train-images that is not complete. The command that began it "
                 "continues it.");
  return path / "model";
}

}  // namespace hydramix
