// SPDX-License-Identifier: Apache-2.0
// Multi-query associative recall (MQAR): Arora et al. 2023, "Zoology: Measuring and Improving
// Recall in Efficient Language Models", section 4 and appendix E. A sequence states pairs of a key
// and a value, and later asks for the value of every key:
//
//   position   0   1   2   3   4   5   6   7   8   9  10  11
//   token      k1  v1  k2  v2  k2  .   .   .   k1  .   .   .       . is token 0
//   answer                     v2              v1
//
// The answer is predicted at the query's own position. No token after a query is its answer, so
// causal and bidirectional mixers get the same task: the value must come from the pair, which lies
// before the query.
//
// Of a vocabulary of V tokens, 1 .. V/2 - 1 are keys and V/2 .. V - 1 values. The keys of a
// sequence differ, and so do its values. The queries lie at even distances 0, 2, .. after the last
// pair. Each takes a free position, number j = 0, 1, .. with probability proportional to
// (j + 1)^(power - 1): near positions are more likely, as repeated words are in text.
//
// Training may mix in easier sequences, which have fewer pairs and more of token 0: `fewest_pairs`
// .. `pairs`, each number equally likely. Models then learn to recall many times sooner. Arora et
// al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff", train
// on such a mixture. Tests always have `pairs`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hydramix/options.h"

namespace hydramix {

struct RecallOptions {
  int64_t length = 64;
  int64_t pairs = 4, fewest_pairs = 0;
  double power = 0.01;
  int64_t evaluated = 3000;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("length", self.length, Range{4, 1 << 24}, "tokens of a sequence");
    v("pairs", self.pairs, Range{1, 1 << 22},
      "pairs of a key and a value in a sequence, at most a quarter of its length");
    v("fewest_pairs", self.fewest_pairs, Range{0, 1 << 22},
      "training sequences have from this number to all of the pairs; 0: always all");
    v("power", self.power, Range{0.0, 1.0},
      "queries are spread by a power law with this exponent less one; 1: uniformly");
    v("evaluated", self.evaluated, Range{1, 1 << 30}, "sequences of an evaluation");
  }
};

struct RecallExample {
  std::vector<int64_t> tokens;     // (length)
  std::vector<int64_t> positions;  // (pairs): of the queries, in the order of the pairs
  std::vector<int64_t> answers;    // (pairs): the value of each
};

enum class RecallSplit { kTrain, kTest };

class RecallData {
 public:
  // Throws UsageError unless sequences of these options can be made from `vocab` tokens.
  RecallData(const RecallOptions& options, int64_t vocab);

  // Example `number` of a seed: a pure function of both and of the options.
  RecallExample example(uint64_t seed, RecallSplit split, int64_t number) const;
  // Identifies the task and the generator.
  std::string fingerprint() const;
  const RecallOptions& options() const { return options_; }

 private:
  RecallOptions options_;
  int64_t vocab_;
  std::vector<double> weights_;  // of the positions for queries after one pair
};

}  // namespace hydramix
