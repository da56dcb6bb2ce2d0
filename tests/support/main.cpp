// SPDX-License-Identifier: Apache-2.0
// main() of every test executable. Each holds the tests of one folder.
//
//   ops_tests --file=ops/scan_test      the tests of tests/ops/scan_test.cpp alone
//
// CTest has one entry per file. A file without tests is an error, and so is a test that no file
// named *_test.cpp defines: CTest would never run it.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <string_view>

namespace {

// The full names of the tests that `file` (ops/scan_test) defines, as a filter of GoogleTest; empty
// if there are none.
std::string tests_of(const std::string& file) {
  std::string names;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (std::string_view(test.file()).ends_with("/" + file + ".cpp"))
        names += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return names;
}

// The first test outside of *_test.cpp files; empty if there is none.
std::string misplaced_test() {
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (!std::string_view(test.file()).ends_with("_test.cpp"))
        return std::string(suite.name()) + "." + test.name() + " in " + test.file();
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto misplaced = misplaced_test(); !misplaced.empty()) {
    std::cerr << misplaced << ": tests belong in files named *_test.cpp\n";
    return 1;
  }
  // GoogleTest starts the program again for one death test, whose name is then the filter.
  const bool death_test = !testing::GTEST_FLAG(internal_run_death_test).empty();
  constexpr std::string_view kOption = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kOption)) {
      std::cerr << "unknown argument " << argument << "; there is --file=FOLDER/STEM\n";
      return 1;
    }
    const std::string file(argument.substr(kOption.size()));
    const auto names = tests_of(file);
    if (names.empty()) {
      std::cerr << "tests/" << file << ".cpp defines no test of this executable\n";
      return 1;
    }
    if (death_test) continue;
    // Tests that --gtest_filter excludes stay excluded.
    auto& filter = testing::GTEST_FLAG(filter);
    const auto excluded = filter.find('-');
    filter = names + (excluded == std::string::npos ? "" : filter.substr(excluded));
  }
  return RUN_ALL_TESTS();
}
