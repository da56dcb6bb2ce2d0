// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

TEST(ReadFile, ReturnsEveryByte) {
  const test::TemporaryFolder folder;
  std::string contents(300'000, 'x');
  contents[7] = '\0';
  contents[70'000] = '\n';
  std::ofstream(folder / "a", std::ios::binary) << contents;
  EXPECT_EQ(read_file(folder / "a"), contents);
  std::ofstream(folder / "empty").flush();
  EXPECT_EQ(read_file(folder / "empty"), "");
  EXPECT_EQ(read_start(folder / "a", 8), contents.substr(0, 8));
  EXPECT_EQ(read_start(folder / "empty", 8), "");
}

TEST(ReadFile, AFileAboveTheLimitOfItsKindIsRefusedBeforeItIsRead) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a").flush();
  std::filesystem::resize_file(folder / "a", uintmax_t{1} << 40);  // takes no space on the disk
  EXPECT_THROW_WITH(read_file(folder / "a", kTokenizerFile), Error,
                    "a: has 1099511627776 bytes; a tokenizer has at most 268435456");
  constexpr FileKind kSmall{"a small file", 3};
  std::ofstream(folder / "b") << "abc";
  EXPECT_EQ(read_file(folder / "b", kSmall), "abc");
  std::ofstream(folder / "b") << "abcd";
  EXPECT_THROW_WITH(read_file(folder / "b", kSmall), Error, "b: has 4 bytes; a small file has");
}

TEST(ReadFile, FoldersPipesAndDevicesAreRefusedAtOnce) {
  const test::TemporaryFolder folder;
  EXPECT_THROW_WITH(read_file(folder.path()), Error, "is a directory, expected a file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW_WITH(read_file(folder / "pipe"), Error, "pipe: is a pipe or a device");
  EXPECT_THROW_WITH(read_file("/dev/zero"), Error, "/dev/zero: is a pipe or a device");
  EXPECT_THROW_WITH(read_file(folder / "absent"), Error, "cannot be opened: No such file");
}

TEST(ReadFile, AFileWithoutItsStatedSizeHasChanged) {
  // The kernel says 0 bytes and gives more: a file that grows between the two looks the same.
  EXPECT_THROW_WITH(read_file("/proc/self/status"), Error, "changed while it was read: 0 bytes");
  constexpr FileKind kGrowing{"a log", 1 << 20, /*grows=*/true};
  EXPECT_EQ(read_file("/proc/self/status", kGrowing), "") << "what was there at first";
}

TEST(ReadFile, APartStartsAtItsByteOrAtTheStartOfAShorterFile) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a") << "abcdef";
  const auto part = [&](int64_t begin, std::size_t count) {
    const auto read = read_part(folder / "a", begin, count);
    return concat(read.begin, read.bytes);
  };
  EXPECT_EQ(part(0, 3), "0abc");
  EXPECT_EQ(part(4, 100), "4ef");
  EXPECT_EQ(part(6, 100), "6");
  EXPECT_EQ(part(7, 100), "0abcdef");
}

TEST(ReadFile, AByteOrderMarkIsRemovedOnce) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBFtext"), "text");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBBtext"), "\xEF\xBBtext");
  EXPECT_EQ(without_byte_order_mark(""), "");
}

}  // namespace
}  // namespace hydramix
