// SPDX-License-Identifier: Apache-2.0
// Loads batches of images with worker threads. A batch is a function of its image numbers, of the
// seed and of LoadImage alone: not of the number of threads, nor of what was loaded before.
//
// In training, number n of the endless order is image Shuffle(size, seed, n / size)(n mod size):
// every epoch is another permutation. In evaluation, number n is image n.
//
// While the caller works on a batch, the threads load the one that is likely to be next: the caller
// is expected to go on in the same steps. A wrong guess costs time only.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "images/image_batch.h"
#include "images/image_collection.h"

namespace hydramix {

// Loads one image of a collection, turns it into numbers, and writes them to `out`. Called by many
// threads at once. Randomness must be a function of `epoch` and `image`.
using LoadImage = std::function<void(const ImageCollection& images, int64_t image, int64_t epoch,
                                     std::span<float> out)>;

struct ImageLoaderOptions {
  int64_t values = 0;    // numbers of an image: 3 * height * width
  bool shuffled = true;  // training; otherwise evaluation
  uint64_t seed = 0;     // of the order
  // A damaged image throws. Otherwise the next sound image of the collection takes its place in
  // training, with its own label; in evaluation its label is -1.
  bool broken_fails = false;
  int64_t workers = 0;  // threads; 0: as many as cores
  // Where batches are written, for example memory from which a device can copy. Called in load().
  NewFloats memory = [](int64_t n) {
    return std::make_shared_for_overwrite<float[]>(static_cast<std::size_t>(n));
  };
  // Called by load(), once for each damaged image.
  std::function<void(const std::string&)> message = {};
};

class ImageLoader {
 public:
  ImageLoader(std::shared_ptr<const ImageCollection> images, LoadImage load_image,
              ImageLoaderOptions options);
  ~ImageLoader();  // waits for the images that are being decoded, not for the rest of their batch
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  // Images `first` to `first + count - 1`. To be called from one thread at a time. Rethrows what a
  // worker throws; the loader can still be used afterwards.
  ImageBatch load(int64_t first, int64_t count);

  const ImageCollection& images() const { return *images_; }
  // The image of the collection that a number stands for.
  int64_t image_of(int64_t number) const;
  // Damaged images found so far.
  int64_t broken() const;

 private:
  struct Job;

  std::shared_ptr<Job> guessed(int64_t first, int64_t count) const;
  std::shared_ptr<Job> new_job(int64_t first, int64_t count) const;
  std::shared_ptr<Job> guess_next(int64_t first, int64_t count);
  void work();
  void load_one(Job& job, int64_t place);
  bool is_broken(int64_t image) const;
  void note_broken(int64_t image, const std::string& message);
  void stop();

  const std::shared_ptr<const ImageCollection> images_;
  const LoadImage load_image_;
  const ImageLoaderOptions options_;

  int64_t previous_first_ = -1;
  mutable std::mutex mutex_;  // guards everything below except the batches of jobs
  std::condition_variable work_added_, work_done_;
  std::deque<std::shared_ptr<Job>> jobs_;  // the one that the caller waits for comes first
  std::map<int64_t, std::string> broken_;
  std::vector<std::string> unreported_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hydramix
