// SPDX-License-Identifier: Apache-2.0
#include "images/drawn_files.h"

#include <atomic>
#include <future>
#include <mutex>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "images/jpeg.h"
#include "images/packed_images.h"
#include "images/png.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  HYDRAMIX_CHECK(!problem, folder.string(), ": cannot be made a folder (", problem.message(),
                 "). Choose another place.");
}

// Returns whether images of these options may exist already.
bool start_or_continue(const DrawnFolders& folders) {
  const fs::path manifest = folders.out / "drawn.json";
  auto description = to_json(folders.drawn);
  description["format"] = folders.format;
  const std::string text = description.dump(2) + "\n";
  const bool exists = fs::exists(manifest);
  if (exists && read_file(manifest, kConfigFile) == text) return true;
  for (const fs::path& name : {manifest, folders.out / "train", folders.out / "val"})
    HYDRAMIX_CHECK(folders.overwrite || !fs::exists(fs::symlink_status(name)), name.string(),
                   ": exists already, and not with these options. Choose another --out, or replace "
                   "images with --overwrite.");
  make_folder(folders.out);
  write_file(manifest, text);
  return false;
}

// Calls f(0) to f(count - 1). More threads than cores, because each waits for the disk most of the
// time: a file is complete only when it is safe there.
void for_each_by_threads(int64_t count, const std::function<void(int64_t)>& f) {
  std::atomic<int64_t> next = 0;
  std::vector<std::future<void>> threads;
  for (int t = 0; t < 16; ++t)
    threads.push_back(std::async(std::launch::async, [&] {
      try {
        for (int64_t i; (i = next++) < count;) f(i);
      } catch (...) {
        next = count;  // the others stop
        throw;
      }
    }));
  for (auto& thread : threads) thread.wait();
  for (auto& thread : threads) thread.get();
}

}  // namespace

int64_t write_drawn_folders(const DrawnFolders& folders,
                            const std::function<void(int64_t)>& progress) {
  const bool continued = start_or_continue(folders);
  std::atomic<int64_t> written = 0;
  int64_t done = 0;
  std::mutex mutex;
  for (const ImageSplit split : {ImageSplit::kTrain, ImageSplit::kValidation}) {
    const auto images = drawn_images(folders.drawn, split);
    const fs::path root = folders.out / (split == ImageSplit::kTrain ? "train" : "val");
    for (const auto& name : images->classes()) make_folder(root / name);
    for_each_by_threads(images->size(), [&](int64_t i) {
      const fs::path path = root / images->classes()[static_cast<std::size_t>(images->label(i))] /
                            formatted("%08lld.%s", i, folders.format);
      // A file under its final name is complete.
      if (!continued || !fs::exists(path)) {
        const Image image = images->load(i);
        write_file(path, folders.format == "png" ? encode_png(image) : encode_jpeg(image, 90));
        ++written;
      }
      const std::lock_guard lock(mutex);
      progress(++done);
    });
  }
  return written;
}

std::string drawn_cifar10(const DrawnOptions& options, ImageSplit split, int64_t first,
                          int64_t count) {
  const auto images = drawn_images(options, split);
  std::string records;
  for (int64_t i = first; i < first + count; ++i)
    records += cifar10_record(images->load(i), images->label(i));
  return records;
}

}  // namespace hydramix
