// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "base/list_folder.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"

namespace hydramix {
namespace {

constexpr const char* kCheckpointFormat = "hydramix checkpoint 2";

// Format 1 had its own checksums: CRC-32 of every tensor and of the metadata.
constexpr const char* kOldFormat = "hydramix checkpoint 1";
constexpr const char* kMetadataSum = "crc32 of the metadata";

std::string checksum(const torch::Tensor& t) {
  const auto bytes = static_cast<std::size_t>(t.nbytes());
  const uLong sum = crc32_z(crc32_z(0, nullptr, 0), static_cast<const Bytef*>(t.data_ptr()), bytes);
  return std::to_string(sum);
}

// Checksum of all metadata but this key.
std::string checksum(const safetensors::Metadata& metadata) {
  uLong sum = crc32_z(0, nullptr, 0);
  for (const auto& [key, value] : metadata) {
    const std::string line = key + "=" + value + "\n";
    if (key != kMetadataSum)
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(line.data()), line.size());
  }
  return std::to_string(sum);
}

void check_old_sums(const TensorFile& file) {
  const auto metadata_sum = file.metadata.find(kMetadataSum);
  HYDRAMIX_CHECK(
      metadata_sum != file.metadata.end() && metadata_sum->second == checksum(file.metadata),
      file.path.string(), ": the checksum of the metadata is wrong: the file was damaged.");
  for (const auto& [name, tensor] : file.tensors) {
    const auto sum = file.metadata.find("crc32 " + name);
    HYDRAMIX_CHECK(sum != file.metadata.end() && sum->second == checksum(tensor),
                   file.path.string(), ": the checksum of '", name,
                   "' is wrong: the file was damaged.");
  }
}

int64_t whole_number(const std::filesystem::path& path, const TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  int64_t value = -1;
  if (found != file.metadata.end()) {
    const auto& text = found->second;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size()) value = -1;
  }
  HYDRAMIX_CHECK(value >= 0, path.string(), ": metadata '", key,
                 "' is missing or not a whole number; the file is no checkpoint of this version.");
  return value;
}

// The exact bits, as sixteen hexadecimal digits.
std::string bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

double from_bits(const std::string& text) {
  uint64_t bits = 0;
  std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const auto file = load_tensors(path);
  const auto found = file.metadata.find("format");
  const std::string format = found == file.metadata.end() ? "" : found->second;
  HYDRAMIX_CHECK(format == kCheckpointFormat || format == kOldFormat, path.string(),
                 ": is no checkpoint of a training run (metadata 'format' is not '",
                 kCheckpointFormat, "').");
  if (format == kOldFormat) check_old_sums(file);
  HYDRAMIX_CHECK(format == kOldFormat || file.has_checksums, path.string(),
                 ": has no checksums, which every checkpoint has: it was written again by another "
                 "program, or damaged.");
  Checkpoint checkpoint;
  checkpoint.step = whole_number(path, file, "step");
  checkpoint.updates = whole_number(path, file, "updates");
  checkpoint.skipped = whole_number(path, file, "skipped");
  checkpoint.evaluated = whole_number(path, file, "evaluated");
  const auto best_loss = file.metadata.find("best_loss");
  HYDRAMIX_CHECK(best_loss != file.metadata.end(), path.string(),
                 ": metadata 'best_loss' is missing; the file is no checkpoint of this version.");
  checkpoint.best_loss = from_bits(best_loss->second);
  if (file.metadata.contains("stale")) checkpoint.stale = whole_number(path, file, "stale");
  checkpoint.tensors = file.tensors;
  return checkpoint;
}

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  const safetensors::Metadata metadata{{"format", kCheckpointFormat},
                                       {"step", std::to_string(checkpoint.step)},
                                       {"updates", std::to_string(checkpoint.updates)},
                                       {"skipped", std::to_string(checkpoint.skipped)},
                                       {"evaluated", std::to_string(checkpoint.evaluated)},
                                       {"best_loss", bits_of(checkpoint.best_loss)},
                                       {"stale", std::to_string(checkpoint.stale)}};
  for (const auto& [name, tensor] : checkpoint.tensors)
    HYDRAMIX_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "checkpoint: '", name,
                   "' must be contiguous, on the CPU.");
  save_tensors(path, checkpoint.tensors, metadata);
}

CheckpointFolder::CheckpointFolder(std::filesystem::path folder, int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {}

void CheckpointFolder::prepare() const {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  HYDRAMIX_CHECK(!failure, folder_.string(), ": cannot make this folder: ", failure.message(), ".");
  for (const auto& path : list_folder(folder_))
    if (path.filename().string().find(".safetensors.tmp.") != std::string::npos)
      ::unlink(path.c_str());
}

CheckpointFolder::~CheckpointFolder() {
  if (writing_.valid()) writing_.wait();
}

std::vector<std::filesystem::path> CheckpointFolder::files() const {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(folder_)) return found;
  for (const auto& path : list_folder(folder_)) {
    const auto name = path.filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) found.push_back(path);
  }
  std::sort(found.rbegin(), found.rend());  // all names have the same number of digits
  return found;
}

std::optional<Checkpoint> CheckpointFolder::newest(
    const std::function<void(const std::string&)>& say) const {
  auto candidates = files();
  if (std::filesystem::exists(best())) candidates.push_back(best());  // the last resort
  for (const auto& path : candidates) {
    try {
      return read_checkpoint(path);
    } catch (const Error& error) {
      say(concat("passing over a checkpoint that cannot be used: ", error.what()));
    }
  }
  if (!candidates.empty()) say("no checkpoint is sound: starting from the beginning");
  return std::nullopt;
}

void CheckpointFolder::write(const Checkpoint& checkpoint, bool best) const {
  const auto path = folder_ / formatted("step-%010lld.safetensors", checkpoint.step);
  // Writes the best one first: a run that is killed between the two evaluates again, finds it best
  // again, and loses nothing. Where links are possible, one file then has both names.
  bool linked = false;
  if (best) {
    write_checkpoint(this->best(), checkpoint);
    const auto fresh = folder_ / "step.new";
    ::unlink(fresh.c_str());
    std::error_code failure;
    std::filesystem::create_hard_link(this->best(), fresh, failure);
    if (!failure) std::filesystem::rename(fresh, path, failure);
    linked = !failure;
  }
  if (!linked) write_checkpoint(path, checkpoint);
  // Files with a greater number were found damaged when this run began. They must not outrank sound
  // ones.
  const auto all = files();
  std::size_t sound = 0;
  for (const auto& file : all) {
    if (file.filename() > path.filename()) {
      auto aside = file;
      aside += ".damaged";
      std::filesystem::rename(file, aside);
    } else if (++sound > static_cast<std::size_t>(keep_)) {
      ::unlink(file.c_str());
    }
  }
}

void CheckpointFolder::save(Checkpoint checkpoint, bool best) {
  wait();
  writing_ = std::async(std::launch::async,
                        [this, best, own = std::move(checkpoint)] { write(own, best); });
}

void CheckpointFolder::wait() {
  if (writing_.valid()) writing_.get();
}

void remove_checkpoints(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& path : list_folder(folder, ignored)) std::filesystem::remove(path, ignored);
  std::filesystem::remove(folder, ignored);
}

}  // namespace hydramix
