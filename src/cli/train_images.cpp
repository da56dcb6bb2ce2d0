// SPDX-License-Identifier: Apache-2.0
// hydramix train-images RECIPE.yaml: training of an image classifier, on one process or many.
#include <cstdio>
#include <memory>

#include "base/counted.h"
#include "base/formatted.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/training_progress.h"
#include "train/train_images.h"

namespace hydramix {
namespace {

// "top-1 81.23 %, top-5 95.30 %"
std::string accuracy_text(const nlohmann::ordered_json& evaluation) {
  return formatted("top-1 %.2f %%, top-5 %.2f %%", 100 * evaluation.at("top1").get<double>(),
                   100 * evaluation.at("top5").get<double>());
}

int run_train_images(const ImageTrainOptions& options) {
  keep_memory_mapped();
  std::unique_ptr<Progress> progress;
  ImageTrainOptions all = options;
  double gemm = 0;
  ImageTrainEvents events;
  events.message = [&](const std::string& message) {
    if (progress)
      progress->message(message);
    else
      std::fprintf(stderr, "%s\n", message.c_str());
  };
  events.building = [&](const ImageTrainOptions& completed, int64_t parameters) {
    all = completed;
    std::fprintf(
        stderr,
        "building %s: %.1f M parameters in %s of d_model %lld; %lld classes of %lld x %lld\n",
        all.model.block.mixer.c_str(), static_cast<double>(parameters) / 1e6,
        counted(all.model.layers, "layer").c_str(), static_cast<long long>(all.model.block.d_model),
        static_cast<long long>(all.model.classes), static_cast<long long>(all.model.size),
        static_cast<long long>(all.model.size));
  };
  events.ready = [&](double rate) {
    gemm = rate;
    std::fprintf(stderr, "%s of %s; %s\n", counted(all.train.steps.steps, "step").c_str(),
                 counted(all.train.steps.batch, "image").c_str(), all.out.c_str());
  };
  events.started = [&](int64_t step) {
    progress = std::make_unique<Progress>("train-images", all.train.steps.steps, "steps", 1, step);
  };
  events.micro_batch = [&](const MicroBatchReport& report) {
    progress->within_step(formatted("image %lld of %lld", report.done, report.sequences));
  };
  events.step = [&](const StepReport& report) {
    std::vector<std::string> notes{formatted("loss %.3f", report.loss)};
    if (report.skipped > 0) notes.push_back(formatted("%lld skipped", report.skipped));
    notes.push_back(formatted("%.0f images/s",
                              report.tokens_per_second / static_cast<double>(all.model.length())));
    notes.push_back(
        formatted("%.0f %% of GEMM", 100 * report.flops_per_second / std::max(gemm, 1.0)));
    progress->advance(std::move(notes));
  };
  events.evaluation = [&](int64_t step, const nlohmann::ordered_json& evaluation) {
    std::string average;
    if (evaluation.contains("average"))
      average = "; average of the weights: " + accuracy_text(evaluation["average"]);
    progress->message(formatted("step %lld: evaluation loss %.4f, %s%s", step,
                                evaluation.at("loss").get<double>(), accuracy_text(evaluation),
                                average));
  };
  const auto result = train_images(options, events);
  progress.reset();
  if (result.end == Trainer::End::kInterrupted) return stopped_by_signal(options.out);
  if (result.evaluation.is_null()) return 0;  // rank 0 has it
  const auto& evaluation = result.evaluation;
  std::printf("%s: loss %.4f, %s\n",
              counted(static_cast<int64_t>(evaluation.at("images").get<double>()), "image").c_str(),
              evaluation.at("loss").get<double>(), accuracy_text(evaluation).c_str());
  if (evaluation.contains("average"))
    std::printf("average of the weights: loss %.4f, %s\n",
                evaluation["average"].at("loss").get<double>(),
                accuracy_text(evaluation["average"]).c_str());
  std::printf("classes: %s/classes.tsv, %s/confusion.svg\nmodel: %s/model\n", options.out.c_str(),
              options.out.c_str(), options.out.c_str());
  return 0;
}

}  // namespace

Command train_images_command() {
  auto command = make_command<ImageTrainOptions>(
      "train-images", "train an image classifier", run_train_images,
      "Examples:\n"
      "  hydramix train-images recipes/images/tiny.yaml\n"
      "  hydramix train-images recipes/images/small-hydra.yaml --data.path cifar-10-batches-bin\n"
      "  hydramix train-images recipes/table5/hydra-vit-b.yaml --data.path imagenet --out "
      "runs/hydra-vit-b\n"
      "  hydramix train-images recipes/images/tiny.yaml --from runs/images/tiny --data.path "
      "flowers --out runs/flowers\n"
      "The same command continues a run that was stopped or killed. The model is OUT/model: "
      "hydramix classify answers with it.");
  command.config_argument = "RECIPE";
  command.needs_words = true;
  return command;
}

}  // namespace hydramix
