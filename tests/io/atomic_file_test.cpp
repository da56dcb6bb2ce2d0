// SPDX-License-Identifier: Apache-2.0
// AtomicFile writes completely or not at all, and a failed write leaves neither a damaged target
// nor a temporary file.
#include "base/atomic_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iterator>
#include <stdexcept>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

std::size_t files_in(const TemporaryFolder& folder) {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator(folder.path()), Iterator()));
}

TEST(AtomicFile, TheFileAppearsOnlyAtCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "out");
  file.write("hello ");
  file.write("world");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), "hello world");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, SweepsTheTemporaryFilesOfTheDeadAndNotOfTheLiving) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {  // dies in the middle of a file
    AtomicFile file(folder / "dead");
    file.write("half");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(files_in(folder), 1U);
  write_file(folder / "notes.tmp.txt", "not ours");
  AtomicFile living(folder / "living");
  living.write("half");
  const pid_t other = fork();  // a process that writes for the first time sweeps
  if (other == 0) {
    write_file(folder.path() / "." / "next", "whole");  // a folder it has not swept yet
    _exit(0);
  }
  waitpid(other, nullptr, 0);
  living.commit();
  EXPECT_EQ(files_in(folder), 3U) << "notes.tmp.txt, next and living";
  EXPECT_EQ(read_file(folder / "living"), "half");
}

TEST(AtomicFile, TheTargetIsUntouchedAndNoTemporaryIsLeftWhenTheWriterThrows) {
  const TemporaryFolder folder;
  write_file(folder / "out", "old");
  EXPECT_THROW(
      {
        AtomicFile file(folder / "out");
        file.write("half of the new cont");
        EXPECT_EQ(files_in(folder), 2U);
        throw std::runtime_error("the writer failed");
      },
      std::runtime_error);
  EXPECT_EQ(read_file(folder / "out"), "old");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, NothingIsLeftWhenDestroyedBeforeCommit) {
  const TemporaryFolder folder;
  { AtomicFile(folder / "out").write("lost"); }
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(AtomicFile, CommitReplacesALongerFileCompletely) {
  const TemporaryFolder folder;
  write_file(folder / "out", std::string(1'000'000, 'x'));
  write_file(folder / "out", "short");
  EXPECT_EQ(read_file(folder / "out"), "short");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, ContentsSurviveByteForByte) {
  const TemporaryFolder folder;
  const std::string contents("zero\0newline\r\nhigh\xff", 19);
  write_file(folder / "out", contents);
  EXPECT_EQ(read_file(folder / "out"), contents);
  write_file(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
}

TEST(AtomicFile, TheFileGetsTheOrdinaryPermissions) {
  const TemporaryFolder folder;
  const mode_t before = umask(022);
  write_file(folder / "out", "x");
  umask(before);
  struct stat status = {};
  ASSERT_EQ(stat((folder / "out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
}

TEST(AtomicFile, AMissingFolderIsNamedInTheError) {
  const TemporaryFolder folder;
  const auto target = folder / "missing/out";
  EXPECT_THROW_WITH(AtomicFile{target}, Error, target.string() + ": cannot be created");
  EXPECT_THROW_WITH(AtomicFile{target}, Error, "No such file or directory");
  EXPECT_THROW_WITH(AtomicFile{target}, Error, (folder / "missing").string() + " exists");
}

TEST(AtomicFile, AFailingCommitIsReportedAndLeavesNoTemporary) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "out");
    file.write("contents");
    // A directory with the target's name makes the final rename fail.
    std::filesystem::create_directory(folder / "out");
    EXPECT_THROW_WITH(file.commit(), Error, "cannot be renamed into place");
  }
  EXPECT_TRUE(std::filesystem::is_directory(folder / "out"));
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, RefusesADirectoryAsTarget) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(AtomicFile{folder.path()}, Error, "is a directory; name a file to write");
}

TEST(ReadFile, RefusesMissingPathsAndDirectories) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(read_file(folder / "missing"), Error, "cannot be opened");
  EXPECT_THROW_WITH(read_file(folder.path()), Error, "is a directory, expected a file");
}

TEST(AtomicFile, FollowsALinkAndLeavesItALink) {
  test::TemporaryFolder folder;
  write_file(folder / "real", "old");
  std::filesystem::create_symlink(folder / "real", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real"), "new");
}

TEST(AtomicFile, RefusesToReplaceADevice) {
  EXPECT_THROW_WITH(write_file("/dev/null", "x"), Error, "is a device or a pipe");
}

}  // namespace
}  // namespace hydramix
