// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: one .safetensors file each, with everything that the next step depends on.
//
//   checkpoints/step-0000000400.safetensors  weights.*, mean.*, square.*, average.* by weight name;
//                                           metadata: step and counters; checksums of everything
//   checkpoints/best.safetensors            the one with the best evaluation (a link)
//
// Files are written atomically, and checksums detect later damage. There is no other state: random
// numbers and the position in the data are functions of the step (base/random.h).
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

struct Checkpoint {
  int64_t step = 0;       // steps done, skipped ones included
  int64_t updates = 0;    // steps that changed the weights
  int64_t skipped = 0;    // steps without a finite loss and gradient
  int64_t evaluated = 0;  // step of the last evaluation; 0 before the first
  double best_loss = 0;   // in evaluation so far; infinite before the first
  int64_t stale = 0;      // evaluations since then
  std::map<std::string, torch::Tensor> tensors;
};

// Reads and checks a file; an Error says what is wrong with it.
Checkpoint read_checkpoint(const std::filesystem::path& path);
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// The checkpoints of a run. Files are written in the background: save() copies nothing and returns
// at once, so its tensors must be copies that nothing writes to.
class CheckpointFolder {
 public:
  // Touches no file, so that readers can open a run that is still going.
  CheckpointFolder(std::filesystem::path folder, int64_t keep);
  // For the only writer of a run: makes the folder and removes the temporary files of a killed
  // writer.
  void prepare() const;
  // Waits for the last write. Its error is lost unless wait() is called first.
  ~CheckpointFolder();

  // The newest sound checkpoint, or the best one if no other is sound. `say` gets a message about
  // each damaged one.
  std::optional<Checkpoint> newest(const std::function<void(const std::string&)>& say) const;
  // Waits for the previous write and throws if that failed. Then writes this one in the background,
  // also as the best one if `best`, and removes all but the newest `keep`.
  void save(Checkpoint checkpoint, bool best);
  // Waits until everything is on disk; throws if a write failed.
  void wait();

  std::vector<std::filesystem::path> files() const;  // of steps, newest first
  std::filesystem::path best() const { return folder_ / "best.safetensors"; }

 private:
  void write(const Checkpoint& checkpoint, bool best) const;

  std::filesystem::path folder_;
  int64_t keep_;
  std::future<void> writing_;
};

// Removes the checkpoints of a complete run, as far as the file system allows.
void remove_checkpoints(const std::filesystem::path& folder);

}  // namespace hydramix
