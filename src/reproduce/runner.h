// SPDX-License-Identifier: Apache-2.0
// Runs many independent pieces of work side by side, and keeps what is finished.
//
// A stage is one run of a row with one seed: pretraining, or fine-tuning after it. Its result is a
// JSON file, written when the stage is complete; a stage with a result is not run again. A stage
// that fails does not stop the others; stages that need it are left out. A signal stops the stages
// that run, which keep checkpoints of their own, and starts no others.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydramix {

// A stage that is running.
class Job {
 public:
  virtual ~Job() = default;
  // Empty while it runs; then whether it succeeded.
  virtual std::optional<bool> ended() = 0;
  // Asks the stage to stop soon and to keep its state. Called at most once.
  virtual void stop() = 0;
};

struct Stage {
  std::string name;                  // "table3/hydra seed 1: pretrain"
  std::filesystem::path result;      // the file that exists once it is complete
  std::string recipe;                // a digest of everything that determines the result
  std::optional<std::size_t> after;  // the number of the stage that must be complete before
  std::function<std::unique_ptr<Job>(int64_t slot)> start;
  std::function<double()> progress;              // from 0 to 1
  std::function<nlohmann::ordered_json()> read;  // the result, after the job has succeeded
  std::string log;                               // where a failed job says why
};

struct RunnerProgress {
  double done = 0;                   // stages, of which the running ones count in part
  double kept = 0;                   // those that earlier calls completed
  std::size_t total = 0;             // stages
  std::vector<std::string> running;  // "table3/hydra seed 1: pretrain"
};

struct RunnerEvents {
  std::function<void(const RunnerProgress&)> progress;
  std::function<void(const std::string&)> message;
};

struct RunnerOutcome {
  bool interrupted = false;
  std::vector<std::string> failed;   // names, with where to look
  std::vector<std::string> skipped;  // names of stages that need a failed one
};

// Throws UsageError if the folder holds a result of another recipe: such a result is neither
// overwritten nor shown as that of this recipe.
void check_kept_results(const std::vector<Stage>& stages);

// `slots` stages run at the same time; each gets the number of its slot, from 0.
RunnerOutcome run_stages(const std::vector<Stage>& stages, int64_t slots,
                         const RunnerEvents& events);

}  // namespace hydramix
