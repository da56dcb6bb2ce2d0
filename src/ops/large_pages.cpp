// SPDX-License-Identifier: Apache-2.0
#include "hydramix/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>

#include "hydramix/torch_compat.h"

namespace hydramix {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;
// A smaller tensor would waste too much of its last page.
constexpr std::size_t kSmallest = 2 * kPage;

// malloc's memory, aligned to large pages, with the advice to use them. Smaller requests go to the
// allocator that was there before.
class LargePages final : public CpuAllocator {
 public:
  explicit LargePages(c10::Allocator* small) : small_(small) {}

  // Operations that use oneDNN allocate and free raw memory, so both kinds need one deleter. The
  // CPU allocator's calls free().
  c10::DeleterFnPtr raw_deleter() const override { return small_->raw_deleter(); }

 private:
  c10::DataPtr reserve(std::size_t bytes) const override {
    if (bytes < kSmallest) return small_->allocate(bytes);
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* memory = std::aligned_alloc(kPage, whole);
    // The allocator below reports failure in LibTorch's words.
    if (memory == nullptr) return small_->allocate(bytes);
    madvise(memory, whole, MADV_HUGEPAGE);  // advice: without large pages nothing changes
    return {memory, memory, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
  }

  c10::Allocator* small_;
};

}  // namespace

void use_large_pages() {
  static LargePages allocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

}  // namespace hydramix
