// SPDX-License-Identifier: Apache-2.0
#include "data/recall.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/random.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// Streams of random numbers, unrelated to those of other data.
constexpr uint64_t kTrainStream = 0x4d514152, kTestStream = 0x4d514153;

// `count` different numbers of [first, end), in random order.
std::vector<int64_t> distinct(Random& random, int64_t first, int64_t end, int64_t count) {
  std::vector<int64_t> drawn;
  while (std::ssize(drawn) < count) {
    const int64_t one = first + random.below(end - first);
    if (std::find(drawn.begin(), drawn.end(), one) == drawn.end()) drawn.push_back(one);
  }
  return drawn;
}

// `count` different indices of `weights`, each drawn with probability proportional to its weight
// among those that are left. The first arrivals of Poisson processes with these rates have this
// distribution, order included.
std::vector<int64_t> weighted(Random& random, std::span<const double> weights, int64_t count) {
  std::vector<double> arrival(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i)
    arrival[i] = -std::log1p(-random.uniform()) / weights[i];
  std::vector<int64_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    return arrival[static_cast<std::size_t>(a)] < arrival[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

}  // namespace

RecallData::RecallData(const RecallOptions& options, int64_t vocab)
    : options_(options), vocab_(vocab) {
  const int64_t length = options.length, pairs = options.pairs;
  HYDRAMIX_CHECK_USAGE(length % 2 == 0, "recall.length: ", length,
                       " is odd; pairs and queries take two tokens each. Give an even length.");
  HYDRAMIX_CHECK_USAGE(
      4 * pairs <= length, "recall.pairs: ", pairs, " pairs and their queries take ", 4 * pairs,
      " tokens, two each, and recall.length is ", length, ". Give at most ", length / 4, " pairs.");
  HYDRAMIX_CHECK_USAGE(vocab / 2 - 1 >= pairs, "model.vocab: ", vocab, " tokens are ",
                       std::max<int64_t>(vocab / 2 - 1, 0), " keys, and recall.pairs is ", pairs,
                       ". Give at least ", 2 * pairs + 2, " tokens.");
  HYDRAMIX_CHECK_USAGE(options.fewest_pairs <= pairs, "recall.fewest_pairs: ", options.fewest_pairs,
                       " is more than recall.pairs, which is ", pairs, ".");
  weights_.resize(static_cast<std::size_t>(length / 2 - 1));
  for (std::size_t i = 0; i < weights_.size(); ++i)
    weights_[i] = std::pow(static_cast<double>(i + 1), options.power - 1);
}

RecallExample RecallData::example(uint64_t seed, RecallSplit split, int64_t number) const {
  Random random(seed, split == RecallSplit::kTrain ? kTrainStream : kTestStream,
                static_cast<uint64_t>(number));
  int64_t pairs = options_.pairs;
  if (split == RecallSplit::kTrain && options_.fewest_pairs > 0)
    pairs = options_.fewest_pairs + random.below(pairs - options_.fewest_pairs + 1);
  const auto keys = distinct(random, 1, vocab_ / 2, pairs);
  RecallExample example;
  example.answers = distinct(random, vocab_ / 2, vocab_, pairs);
  const auto places = weighted(
      random, std::span(weights_).first(static_cast<std::size_t>(options_.length / 2 - pairs)),
      pairs);
  example.tokens.resize(static_cast<std::size_t>(options_.length), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    example.tokens[2 * i] = keys[i];
    example.tokens[2 * i + 1] = example.answers[i];
    example.positions.push_back(2 * (pairs + places[i]));
    example.tokens[static_cast<std::size_t>(example.positions[i])] = keys[i];
  }
  return example;
}

std::string RecallData::fingerprint() const {
  return concat("recall 1, ", vocab_, " tokens, length ", options_.length, ", ", options_.pairs,
                " pairs, from ", options_.fewest_pairs, ", power ", options_.power);
}

}  // namespace hydramix
