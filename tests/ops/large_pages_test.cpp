// SPDX-License-Identifier: Apache-2.0
#include "hydramix/large_pages.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "hydramix/torch_compat.h"

namespace hydramix {
namespace {

constexpr int64_t kMiB = 1 << 20;

torch::Tensor bytes(int64_t count) { return torch::empty({count}, torch::kUInt8); }

std::uintptr_t address(const torch::Tensor& t) {
  return reinterpret_cast<std::uintptr_t>(t.data_ptr());
}

TEST(LargePages, HoldLargeTensorsAndKeepTheirContents) {
  use_large_pages();
  use_large_pages();  // a second call changes nothing
  for (const int64_t size : {4 * kMiB, 4 * kMiB + 1, 33 * kMiB - 7}) {
    const auto t = bytes(size).fill_(7);
    EXPECT_EQ(address(t) % (2 * kMiB), 0u) << size;
    EXPECT_TRUE(torch::equal(t.clone(), torch::full({size}, 7, torch::kUInt8))) << size;
  }
  auto grown = bytes(kMiB).fill_(3);
  grown.resize_({8 * kMiB});
  EXPECT_TRUE(grown.narrow(0, 0, kMiB).eq(3).all().item<bool>());
}

TEST(LargePages, LeaveSmallAndEmptyTensorsAlone) {
  use_large_pages();
  EXPECT_EQ(bytes(0).numel(), 0);
  // Eight neighbours of 1 MiB would take 16 MiB if each began a large page.
  int aligned = 0;
  std::vector<torch::Tensor> kept;
  for (int i = 0; i < 8; ++i) {
    kept.push_back(bytes(kMiB));
    aligned += address(kept.back()) % (2 * kMiB) == 0;
  }
  EXPECT_LT(aligned, 8);
}

// GELU on the CPU is oneDNN's, which allocates and frees raw memory.
TEST(LargePages, ServeOperationsThatFreeRawMemory) {
  use_large_pages();
  for (const int64_t rows : {8, 4096})
    EXPECT_TRUE(torch::gelu(torch::zeros({rows, 512})).eq(0).all().item<bool>());
  auto* allocator = c10::GetCPUAllocator();
  for (const int64_t size : {int64_t{100}, 8 * kMiB})
    allocator->raw_deallocate(allocator->raw_allocate(static_cast<std::size_t>(size)));
}

TEST(LargePages, ReportARequestThatCannotBeMet) {
  use_large_pages();
  EXPECT_THROW(bytes(int64_t{1} << 60), c10::Error);
}

}  // namespace
}  // namespace hydramix
