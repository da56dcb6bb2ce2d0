// SPDX-License-Identifier: Apache-2.0
#include "images/image_loader.h"

#include <algorithm>
#include <exception>

#include "base/cores.h"
#include "data/shuffle.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// A run of this many damaged images means that a disk failed or that the files are not images.
constexpr int64_t kMaxBrokenInARow = 100;

}  // namespace

struct ImageLoader::Job {
  int64_t first = 0, count = 0;
  ImageBatch batch;
  int64_t started = 0, finished = 0;  // images
  std::exception_ptr error;           // of the first image that threw; the rest is not started

  bool has_work() const { return started < count && !error; }
  bool is_done() const { return finished == started && !has_work(); }
};

ImageLoader::ImageLoader(std::shared_ptr<const ImageCollection> images, LoadImage load_image,
                         ImageLoaderOptions options)
    : images_(std::move(images)), load_image_(std::move(load_image)), options_(std::move(options)) {
  const int64_t workers = options_.workers > 0 ? options_.workers : core_count();
  try {
    for (int64_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {  // the system has no more threads: stop those that run
    stop();
    throw;
  }
}

ImageLoader::~ImageLoader() { stop(); }

void ImageLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int64_t ImageLoader::image_of(int64_t number) const {
  if (!options_.shuffled) return number;
  const int64_t size = images_->size();
  return Shuffle(size, options_.seed, static_cast<uint64_t>(number / size))(number % size);
}

int64_t ImageLoader::broken() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(broken_);
}

ImageBatch ImageLoader::load(int64_t first, int64_t count) {
  HYDRAMIX_CHECK(first >= 0 && count > 0 && (options_.shuffled || first + count <= images_->size()),
                 "load: images ", first, " to ", first + count - 1, " of ", images_->size(),
                 " were requested.");
  // Allocating memory for many images takes long; the workers continue meanwhile.
  auto job = guessed(first, count);
  if (!job) job = new_job(first, count);
  const auto next = guess_next(first, count);
  std::vector<std::string> messages;
  {
    std::unique_lock lock(mutex_);
    jobs_ = {job};  // a wrong guess is dropped
    if (next) jobs_.push_back(next);
    work_added_.notify_all();
    work_done_.wait(lock, [&] { return job->is_done(); });
    std::erase(jobs_, job);
    if (job->error) jobs_.clear();
    messages.swap(unreported_);
  }
  if (options_.message)
    for (const auto& message : messages) options_.message(message);
  if (job->error) std::rethrow_exception(job->error);
  return std::move(job->batch);
}

// The job that the last call guessed, if the guess was right.
std::shared_ptr<ImageLoader::Job> ImageLoader::guessed(int64_t first, int64_t count) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->first == first && job->count == count;
  });
  return found != jobs_.end() ? *found : nullptr;
}

std::shared_ptr<ImageLoader::Job> ImageLoader::new_job(int64_t first, int64_t count) const {
  auto job = std::make_shared<Job>();
  job->first = first;
  job->count = count;
  job->batch.memory = options_.memory(count * options_.values);
  job->batch.pixels = {job->batch.memory.get(), static_cast<std::size_t>(count * options_.values)};
  job->batch.labels.resize(static_cast<std::size_t>(count));
  return job;
}

// The batch that is likely to be next; null where the images end.
std::shared_ptr<ImageLoader::Job> ImageLoader::guess_next(int64_t first, int64_t count) {
  const int64_t step =
      previous_first_ >= 0 && first > previous_first_ ? first - previous_first_ : count;
  previous_first_ = first;
  const int64_t next = first + step;
  if (!options_.shuffled) count = std::min(count, images_->size() - next);
  return count > 0 ? new_job(next, count) : nullptr;
}

void ImageLoader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::shared_ptr<Job> job;
    work_added_.wait(lock, [&] {
      const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                      [](const auto& candidate) { return candidate->has_work(); });
      if (found != jobs_.end()) job = *found;
      return stopping_ || job;
    });
    if (stopping_) return;
    const int64_t place = job->started++;
    lock.unlock();
    std::exception_ptr error;
    try {
      load_one(*job, place);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    ++job->finished;
    if (error && !job->error) job->error = error;
    if (job->is_done()) work_done_.notify_all();
  }
}

void ImageLoader::load_one(Job& job, int64_t place) {
  const int64_t number = job.first + place;
  const std::span<float> pixels(job.batch.pixels.data() + place * options_.values,
                                static_cast<std::size_t>(options_.values));
  int64_t& label = job.batch.labels[static_cast<std::size_t>(place)];
  const int64_t epoch = options_.shuffled ? number / images_->size() : 0;
  const int64_t attempts = options_.shuffled ? std::min(images_->size(), kMaxBrokenInARow) : 1;
  int64_t image = image_of(number);
  for (int64_t attempt = 0; attempt < attempts; ++attempt) {
    try {
      if (!is_broken(image)) {
        load_image_(*images_, image, epoch, pixels);
        label = images_->label(image);
        return;
      }
    } catch (const Error& error) {
      if (options_.broken_fails) throw;
      note_broken(image, error.what());
    }
    image = (image + 1) % images_->size();
  }
  HYDRAMIX_CHECK(!options_.shuffled, images_->name(image_of(number)), ": this and the next ",
                 attempts - 1, " images are damaged. Check the disk and the format of the files.");
  std::fill(pixels.begin(), pixels.end(), 0.0f);
  label = -1;
}

bool ImageLoader::is_broken(int64_t image) const {
  const std::lock_guard lock(mutex_);
  return broken_.contains(image);
}

void ImageLoader::note_broken(int64_t image, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (broken_.emplace(image, message).second) unreported_.push_back(message);
}

}  // namespace hydramix
