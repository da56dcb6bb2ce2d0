// SPDX-License-Identifier: Apache-2.0
#include "base/list_folder.h"

#include <cstdlib>
#include <new>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace {
// Allocations of this thread that succeed before one fails; negative: all.
thread_local long allocations_left = -1;
}  // namespace

void* operator new(std::size_t size) {
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hydramix {
namespace {

TEST(ListFolderTest, HasEveryEntryOnceInOrder) {
  test::TemporaryFolder folder;
  EXPECT_TRUE(list_folder(folder.path()).empty());
  for (const char* name : {"b", ".hidden", "a"}) write_file(folder / name, "");
  std::filesystem::create_directory(folder / "c");
  EXPECT_EQ(list_folder(folder.path()),
            (std::vector<std::filesystem::path>{folder / ".hidden", folder / "a", folder / "b",
                                                folder / "c"}));
  std::error_code failed = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(list_folder(folder.path(), failed).size(), 4u);
  EXPECT_FALSE(failed);
}

TEST(ListFolderTest, AMissingFolderIsNamed) {
  test::TemporaryFolder folder;
  EXPECT_THROW_WITH(list_folder(folder / "nowhere"), Error, "nowhere: the folder cannot be read");
  std::error_code failed;
  EXPECT_TRUE(list_folder(folder / "nowhere", failed).empty());
  EXPECT_EQ(failed, std::errc::no_such_file_or_directory);
  write_file(folder / "file", "");
  list_folder(folder / "file", failed);
  EXPECT_EQ(failed, std::errc::not_a_directory);
}

// std::filesystem::directory_iterator would abort this process.
TEST(ListFolderTest, MissingMemoryIsAnException) {
  test::TemporaryFolder folder;
  const std::string prefix(100, 'x');  // names that need memory
  for (int i = 0; i < 5; ++i) write_file(folder / (prefix + std::to_string(i)), "");
  long failures = 0;
  for (long n = 0;; ++n) {
    allocations_left = n;
    try {
      const auto entries = list_folder(folder.path());
      allocations_left = -1;
      EXPECT_EQ(entries.size(), 5u);
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
  }
  EXPECT_GE(failures, 5);
}

}  // namespace
}  // namespace hydramix
