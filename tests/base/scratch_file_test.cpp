// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_file.h"

#include <filesystem>

#include "hydramix/error.h"
#include "support/environment.h"
#include "support/expect.h"

namespace hydramix {
namespace {

TEST(ScratchFile, ReturnsWhatWasAppendedAndHasNoName) {
  test::TemporaryFolder folder;
  test::EnvironmentVariable scratch("TMPDIR", folder.path());
  ScratchFile file;
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < 700'000; ++i) all.push_back(i * 2654435761U);
  // Pieces of many sizes, across several buffers.
  for (std::size_t begin = 0, count = 1; begin < all.size();
       begin += count, count = count * 3 % 997)
    file.append(std::as_bytes(std::span(all).subspan(begin, std::min(count, all.size() - begin))));
  file.finish();
  EXPECT_EQ(file.size(), all.size() * 4);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  for (const std::size_t begin : {std::size_t{0}, std::size_t{262'143}, all.size() - 5}) {
    std::vector<std::uint32_t> read(5);
    file.read(begin * 4, std::as_writable_bytes(std::span(read)));
    EXPECT_TRUE(std::equal(read.begin(), read.end(), all.begin() + std::ptrdiff_t(begin))) << begin;
  }
}

TEST(ScratchFile, RefusesRangesOutsideAndNamesAFolderItCannotUse) {
  ScratchFile file;
  std::vector<std::byte> bytes(4);
  file.append(bytes);
  EXPECT_THROW_WITH(file.read(0, bytes), Error, "after finish()");
  file.finish();
  EXPECT_THROW_WITH(file.read(1, bytes), Error, "4 bytes is read at 1");
  test::EnvironmentVariable scratch("TMPDIR", "/nonexistent/folder");
  EXPECT_THROW_WITH(ScratchFile(), Error,
                    "/nonexistent/folder: cannot create a temporary file: No such file");
}

}  // namespace
}  // namespace hydramix
