// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hydramix {
namespace {

// "VmHWM:   1234 kB" in bytes; 0 if the file or the key is missing.
int64_t kilobytes(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return 1024 * std::atoll(line.c_str() + key.size() + 1);
  return 0;
}

// The number in a file; `none` if the file is missing or says "max".
int64_t number(const char* file, int64_t none) {
  std::ifstream in(file);
  int64_t value = 0;
  return in >> value ? value : none;
}

}  // namespace

void keep_memory_mapped() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

PeakMemory::PeakMemory() {
  release_free_memory();
  // Resets the peak to the present size. Where that is not allowed, peaks come out too high.
  std::ofstream("/proc/self/clear_refs") << "5";
  before_ = kilobytes("/proc/self/status", "VmRSS");
}

int64_t PeakMemory::bytes() const {
  return std::max<int64_t>(0, kilobytes("/proc/self/status", "VmHWM") - before_);
}

int64_t resident_memory() { return kilobytes("/proc/self/status", "VmRSS"); }

int64_t available_memory() {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  const int64_t machine = kilobytes("/proc/meminfo", "MemAvailable");
  const int64_t limit = number("/sys/fs/cgroup/memory.max", kUnlimited);
  const int64_t used = number("/sys/fs/cgroup/memory.current", 0);
  return std::min(machine > 0 ? machine : kUnlimited,
                  limit == kUnlimited ? limit : std::max<int64_t>(0, limit - used));
}

}  // namespace hydramix
