// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "hydramix/error.h"
#include "ops/parallel.h"
#include "support/expect.h"

namespace hydramix::kernels {
namespace {

class InstructionSets : public ::testing::Test {
 protected:
  void TearDown() override { use_instruction_set(""); }
};

// In separate processes, because a process reads its environment once.
TEST_F(InstructionSets, TheEnvironmentChoosesUnlessTheProgramHasChosen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts the program again
  const auto first = instruction_sets().front(), last = instruction_sets().back();
  const auto run_kernel = [] { parallel(1, [](int64_t) {}); };
  EXPECT_EXIT(
      {
        setenv("HYDRAMIX_ISA", last.c_str(), 1);
        run_kernel();
        std::_Exit(instruction_set() == last ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("HYDRAMIX_ISA", first.c_str(), 1);
        use_instruction_set(last);
        run_kernel();
        std::_Exit(instruction_set() == last ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(InstructionSets, ThereIsOneAndTheBestComesFirst) {
  const auto names = instruction_sets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  use_instruction_set("");
  EXPECT_EQ(instruction_set(), names.front());
  // Highway's order on x86; elsewhere the first is still the one in use.
  std::vector<std::string> known;
  for (const std::string name : {"AVX3", "AVX2", "SSE4"})
    if (std::find(names.begin(), names.end(), name) != names.end()) known.push_back(name);
  if (!known.empty()) {
    EXPECT_EQ(names.front(), known.front());
  }
}

TEST_F(InstructionSets, EachCanBeUsedAndStaysInUse) {
  for (const auto& name : instruction_sets()) {
    use_instruction_set(name);
    EXPECT_EQ(instruction_set(), name);
    instruction_sets();
    EXPECT_EQ(instruction_set(), name) << "listing them must change nothing";
    parallel(1, [](int64_t) {});
    EXPECT_EQ(instruction_set(), name) << "nor must kernels";
  }
}

TEST_F(InstructionSets, AnUnknownOneIsRefusedWithTheListOfThoseThereAre) {
  for (const std::string name : {"NONSENSE", "avx2", " "}) {
    EXPECT_THROW_WITH(use_instruction_set(name), UsageError, "have no '" + name + "'");
    for (const auto& known : instruction_sets())
      EXPECT_THROW_WITH(use_instruction_set(name), UsageError, known);
    EXPECT_EQ(instruction_set(), instruction_sets().front());
  }
}

}  // namespace
}  // namespace hydramix::kernels
