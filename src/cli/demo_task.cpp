// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_task.h"

#include "base/atomic_file.h"
#include "cli/training_progress.h"
#include "language/glue.h"
#include "train/finetune.h"

namespace hydramix {

std::optional<DemoTask> finetune_demo(const std::filesystem::path& model,
                                      const std::filesystem::path& out, int64_t seed) {
  DemoTask task{"SST-2", "does it speak well of a work?", "accuracy", 2000, 400, 0, 0.5};
  const auto data = out / "glue";
  for (const auto& file : make_glue_task(task.name, {task.train, task.dev, task.dev}, seed)) {
    std::filesystem::create_directories((data / file.path).parent_path());
    write_file(data / file.path, file.contents);
  }
  FinetuneOptions options;
  options.model = model.string();
  options.task = task.name;
  options.data = data.string();
  options.out = (out / (model.filename().string() + "-" + task.name)).string();
  options.recipe = "tiny";
  options.seed = seed;
  options.device = "cpu";
  const auto outcome = finetune(options, training_progress("  " + task.name));
  if (outcome.end == Trainer::End::kInterrupted) return std::nullopt;
  task.value = outcome.result.at("metrics").at(task.metric).get<double>();
  return task;
}

}  // namespace hydramix
