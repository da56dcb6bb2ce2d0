// SPDX-License-Identifier: Apache-2.0
#include "data/recall.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

struct RecallCase {
  int64_t length, pairs, vocab;
};

// The definition in the header, checked on the tokens alone.
void expect_definition(const RecallCase& c, const RecallExample& example) {
  ASSERT_EQ(std::ssize(example.tokens), c.length);
  ASSERT_EQ(std::ssize(example.positions), c.pairs);
  ASSERT_EQ(std::ssize(example.answers), c.pairs);
  std::map<int64_t, int64_t> value_of;  // the first half of a sequence, as a reader would learn it
  std::set<int64_t> values;
  for (int64_t i = 0; i < c.pairs; ++i) {
    const auto key = example.tokens[static_cast<std::size_t>(2 * i)];
    const auto value = example.tokens[static_cast<std::size_t>(2 * i + 1)];
    ASSERT_GE(key, 1);
    ASSERT_LT(key, c.vocab / 2);
    ASSERT_GE(value, c.vocab / 2);
    ASSERT_LT(value, c.vocab);
    ASSERT_TRUE(value_of.emplace(key, value).second) << "key " << key << " occurs twice";
    ASSERT_TRUE(values.insert(value).second) << "value " << value << " occurs twice";
  }
  std::map<int64_t, int64_t> asked;  // by position
  for (std::size_t i = 0; i < example.positions.size(); ++i) {
    const int64_t position = example.positions[i];
    ASSERT_EQ(position % 2, 0);
    ASSERT_GE(position, 2 * c.pairs);
    ASSERT_LT(position, c.length);
    ASSERT_TRUE(asked.emplace(position, example.answers[i]).second);
  }
  std::set<int64_t> queried;
  for (int64_t position = 2 * c.pairs; position < c.length; ++position) {
    const auto token = example.tokens[static_cast<std::size_t>(position)];
    const auto query = asked.find(position);
    if (query == asked.end()) {
      ASSERT_EQ(token, 0) << "neither pair nor query at " << position;
    } else {
      ASSERT_EQ(query->second, value_of.at(token));
      ASSERT_TRUE(queried.insert(token).second) << "key " << token << " is asked for twice";
    }
  }
  ASSERT_EQ(queried.size(), value_of.size());
}

TEST(RecallDataTest, ExamplesFollowTheirDefinition) {
  for (const RecallCase c : {RecallCase{4, 1, 4}, RecallCase{6, 1, 9}, RecallCase{16, 4, 10},
                             RecallCase{64, 4, 8192}, RecallCase{512, 128, 258}}) {
    const RecallData data({.length = c.length, .pairs = c.pairs}, c.vocab);
    for (int64_t number = 0; number < 50; ++number)
      for (const auto split : {RecallSplit::kTrain, RecallSplit::kTest}) {
        SCOPED_TRACE(concat("length ", c.length, ", example ", number));
        ASSERT_NO_FATAL_FAILURE(expect_definition(c, data.example(3, split, number)));
      }
  }
}

TEST(RecallDataTest, AnExampleIsAFunctionOfSeedSplitAndNumber) {
  const RecallOptions options{.length = 64, .pairs = 8};
  const RecallData data(options, 256);
  std::set<std::vector<int64_t>> different;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (const auto split : {RecallSplit::kTrain, RecallSplit::kTest})
      for (int64_t number = 0; number < 10; ++number) {
        const auto example = data.example(seed, split, number);
        const auto again = RecallData(options, 256).example(seed, split, number);
        EXPECT_EQ(example.tokens, again.tokens);
        EXPECT_EQ(example.positions, again.positions);
        EXPECT_EQ(example.answers, again.answers);
        different.insert(example.tokens);
      }
  EXPECT_EQ(different.size(), 200u);
}

TEST(RecallDataTest, SeedsAndSplitsAreIndependent) {
  const RecallData data({.length = 16, .pairs = 2}, 64);
  // Of 31 keys, two independent draws are equal once in 31: 5 deviations of a binomial.
  constexpr int64_t kExamples = 6000;
  const auto first_key = [&](uint64_t seed, RecallSplit split, int64_t number) {
    return data.example(seed, split, number).tokens[0];
  };
  double seeds = 0, splits = 0, neighbours = 0;
  for (int64_t i = 0; i < kExamples; ++i) {
    const auto key = first_key(1, RecallSplit::kTrain, i);
    seeds += key == first_key(2, RecallSplit::kTrain, i);
    splits += key == first_key(1, RecallSplit::kTest, i);
    neighbours += key == first_key(1, RecallSplit::kTrain, i + 1);
  }
  const double mean = kExamples / 31.0, bound = 5 * std::sqrt(mean);
  EXPECT_NEAR(seeds, mean, bound);
  EXPECT_NEAR(splits, mean, bound);
  EXPECT_NEAR(neighbours, mean, bound);
}

// The places of the first two queries, of four places, are drawn one after the other without
// replacement, by the weights 1, 2^(p-1), 3^(p-1), 4^(p-1).
TEST(RecallDataTest, PlacesFollowThePowerLaw) {
  for (const double power : {0.01, 1.0}) {
    const RecallData data({.length = 12, .pairs = 2, .power = power}, 64);
    constexpr int64_t kExamples = 40000;
    std::map<std::pair<int64_t, int64_t>, double> count;
    for (int64_t i = 0; i < kExamples; ++i) {
      const auto positions = data.example(5, RecallSplit::kTrain, i).positions;
      count[{(positions[0] - 4) / 2, (positions[1] - 4) / 2}] += 1;
    }
    double weights[4], whole = 0;
    for (int j = 0; j < 4; ++j) whole += weights[j] = std::pow(j + 1, power - 1);
    for (int a = 0; a < 4; ++a)
      for (int b = 0; b < 4; ++b) {
        const double share = a == b ? 0 : weights[a] / whole * weights[b] / (whole - weights[a]);
        const double deviation = std::sqrt(kExamples * share * (1 - share));
        EXPECT_NEAR((count[{a, b}]), kExamples * share, 5 * deviation)
            << "places " << a << " and " << b << ", power " << power;
      }
  }
}

TEST(RecallDataTest, TrainingMayHaveFewerPairsAndTestsDoNot) {
  const RecallData data({.length = 24, .pairs = 6, .fewest_pairs = 3}, 40);
  constexpr int64_t kExamples = 4000;
  std::map<int64_t, double> count;
  for (int64_t i = 0; i < kExamples; ++i) {
    const auto example = data.example(2, RecallSplit::kTrain, i);
    const auto pairs = std::ssize(example.positions);
    count[pairs] += 1;
    ASSERT_NO_FATAL_FAILURE(expect_definition({24, pairs, 40}, example));
    ASSERT_EQ(std::ssize(data.example(2, RecallSplit::kTest, i).positions), 6);
  }
  ASSERT_EQ(count.size(), 4u);
  for (int64_t pairs = 3; pairs <= 6; ++pairs)
    EXPECT_NEAR(count[pairs], kExamples / 4.0, 5 * std::sqrt(kExamples * 0.25 * 0.75)) << pairs;
}

TEST(RecallDataTest, ImpossibleTasksAreRefused) {
  EXPECT_THROW_WITH(RecallData({.length = 15, .pairs = 2}, 64), UsageError,
                    "recall.length: 15 is odd");
  EXPECT_THROW_WITH(RecallData({.length = 18, .pairs = 5}, 64), UsageError,
                    "Give at most 4 pairs.");
  EXPECT_THROW_WITH(RecallData({.length = 64, .pairs = 8}, 16), UsageError,
                    "16 tokens are 7 keys, and recall.pairs is 8. Give at least 18 tokens.");
  EXPECT_NO_THROW(RecallData({.length = 64, .pairs = 8}, 18));
  EXPECT_THROW_WITH(RecallData({.length = 64, .pairs = 8, .fewest_pairs = 9}, 64), UsageError,
                    "recall.fewest_pairs: 9 is more than recall.pairs, which is 8.");
  EXPECT_THROW_WITH(RecallData({.length = 4, .pairs = 1}, 1), UsageError, "1 tokens are 0 keys");
}

TEST(RecallDataTest, TheFingerprintNamesTheTask) {
  const RecallOptions options{.length = 64, .pairs = 8};
  const RecallData data(options, 256);
  EXPECT_EQ(data.fingerprint(), RecallData(options, 256).fingerprint());
  EXPECT_NE(data.fingerprint(), RecallData(options, 258).fingerprint());
  EXPECT_NE(data.fingerprint(), RecallData({.length = 64, .pairs = 7}, 256).fingerprint());
}

}  // namespace
}  // namespace hydramix
