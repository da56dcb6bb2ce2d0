// SPDX-License-Identifier: Apache-2.0
// One thread produces items, many process them, and next() returns them in the order of production,
// so results do not depend on the number of threads. A few items per thread are in flight at most,
// which bounds memory. An exception of any thread is rethrown by next() in place of its item.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace hydramix {

template <class Item>
class OrderedPipeline {
 public:
  // `make` fills an item, which may hold data of an earlier one, or returns false at the end;
  // `work` changes it in place.
  OrderedPipeline(std::function<bool(Item&)> make, std::function<void(Item&)> work, int threads)
      : make_(std::move(make)),
        work_(std::move(work)),
        slots_(static_cast<std::size_t>(3 * threads + 1)) {
    try {
      threads_.emplace_back([this] { run_producer(); });
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run_worker(); });
    } catch (...) {  // the system has no more threads: stop those that run
      stop();
      throw;
    }
  }
  ~OrderedPipeline() { stop(); }
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  // Swaps the next item with `item`; false after the last.
  bool next(Item& item) {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    changed_.wait(lock, [&] { return slot.done || (ended_ && taken_ == made_); });
    if (!slot.done) return false;
    if (slot.error) std::rethrow_exception(slot.error);
    std::swap(item, slot.item);
    slot.done = false;
    ++taken_;
    changed_.notify_all();
    return true;
  }

 private:
  struct Slot {
    Item item;
    std::exception_ptr error;
    bool done = false;
  };

  Slot& slot_of(int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }

  void run_producer() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || made_ - taken_ < std::ssize(slots_); });
      if (stopping_) return;
      Slot& slot = slot_of(made_);
      lock.unlock();
      bool more = true;
      try {
        more = make_(slot.item);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      if (more) ++made_;
      ended_ = !more || slot.error;
      changed_.notify_all();
      if (ended_) return;
    }
  }

  void run_worker() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || started_ < made_ || ended_; });
      if (stopping_ || started_ == made_) return;
      Slot& slot = slot_of(started_++);
      lock.unlock();
      try {
        if (!slot.error) work_(slot.item);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.done = true;
      changed_.notify_all();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::function<bool(Item&)> make_;
  std::function<void(Item&)> work_;
  std::mutex mutex_;  // guards everything below except the items, which have one owner at a time
  std::condition_variable changed_;
  std::vector<Slot> slots_;                     // a ring
  int64_t made_ = 0, started_ = 0, taken_ = 0;  // taken <= started <= made <= taken + slots
  bool ended_ = false, stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hydramix
