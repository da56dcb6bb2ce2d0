// SPDX-License-Identifier: Apache-2.0
// Expectations shared by all tests that need no tensors.
#pragma once

#include <gtest/gtest.h>

#include <ftw.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <unistd.h>

// The statement throws an `exception_type` whose text contains `text`: error messages are part of
// the interface.
#define EXPECT_THROW_WITH(statement, exception_type, text)                                       \
  do {                                                                                           \
    bool thrown_ = false;                                                                        \
    try {                                                                                        \
      statement;                                                                                 \
    } catch (const exception_type& error_) {                                                     \
      thrown_ = true;                                                                            \
      EXPECT_NE(std::string(error_.what()).find(text), std::string::npos)                        \
          << "the message lacks \"" << (text) << "\"; it is: " << error_.what();                 \
    } catch (const std::exception& error_) {                                                     \
      thrown_ = true;                                                                            \
      ADD_FAILURE() << "expected " #exception_type ", got another exception: " << error_.what(); \
    }                                                                                            \
    if (!thrown_) ADD_FAILURE() << #statement " did not throw";                                  \
  } while (false)

namespace hydramix::test {

// A temporary folder for one test, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "hydramix-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("mkdtemp failed for " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    // Not std::filesystem::remove_all: LibTorch 2's wheels export an older copy of it, and a
    // program that links them crashes when the two versions mix.
    nftw(
        path_.c_str(),
        [](const char* path, const struct stat*, int, struct FTW*) { return std::remove(path); },
        16, FTW_DEPTH | FTW_PHYS);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace hydramix::test
