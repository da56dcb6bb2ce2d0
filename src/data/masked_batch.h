// SPDX-License-Identifier: Apache-2.0
// Batches for masked-language modelling: [CLS] text [SEP] of each sequence, packed end to end
// without padding, some tokens masked. (Sequences cut from one text have no [SEP] of their own.)
//
//   a token is chosen with probability p; it becomes [MASK] in 80 of 100 cases, any token of the
//   vocabulary in 10, and stays in 10; the original token is the target
//
// A sequence has a number, counted over all epochs, and everything about it (which document, which
// window, what is masked) is a pure function of that number and the seed. A batch therefore does
// not depend on how it is divided among ranks and micro-batches, and the position in the data is a
// count of sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/documents.h"
#include "hydramix/options.h"
#include "hydramix/tokenizer.h"

namespace hydramix {

struct SequenceOptions {
  int64_t max_length = 128;
  std::string long_documents = "truncate";
  double mask = 0.3;
  double evaluation_mask = 0.15;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("max_length", self.max_length, Range{3, 1 << 24},
      "longest sequence in tokens, including [CLS] and [SEP]");
    v("long_documents", self.long_documents, Choices{"truncate", "window", "join"},
      "use the beginning of a longer document, or a new random window each time; join: cut the "
      "text "
      "of all documents, with [SEP] after each, into sequences of max_length");
    // Without a masked token there is nothing to learn from.
    v("mask", self.mask, Range{0.001, 1.0}, "share of the tokens masked in training");
    v("evaluation_mask", self.evaluation_mask, Range{0.001, 1.0},
      "share of the tokens masked in evaluation");
  }
};

// The documents that become one sequence each with these options: the given ones, or rows of the
// joined text.
std::unique_ptr<Documents> sequence_documents(std::unique_ptr<Documents> documents,
                                              const SequenceOptions& options,
                                              const Tokenizer& tokenizer);

struct MaskedBatch {
  std::vector<int64_t> ids;        // tokens of all sequences, end to end
  std::vector<int64_t> offsets;    // where each sequence begins, then the number of tokens
  std::vector<int64_t> positions;  // indices into ids to be predicted
  std::vector<int64_t> targets;    // the original ids there
  std::vector<int64_t> documents;  // the document of each sequence
  std::vector<int64_t> begins;     // and where in it the sequence begins
  int64_t first = 0;               // the number of the first sequence
};

class MaskedBatches {
 public:
  // `documents` come from sequence_documents(). Throws Error unless they were made with this
  // tokenizer.
  MaskedBatches(const Documents& documents, const Tokenizer& tokenizer,
                const SequenceOptions& options, uint64_t seed);

  // Sequences first .. first + count - 1 of training, all epochs in a row.
  MaskedBatch training(int64_t first, int64_t count) const;
  // Documents first .. first + count - 1 in their own order, masked the same way every time.
  MaskedBatch evaluation(int64_t first, int64_t count) const;
  int64_t mask_id() const { return special_.mask; }

 private:
  void add(MaskedBatch& batch, int64_t document, bool window, double share, Random& random) const;

  const Documents& documents_;
  SpecialTokens special_;
  int64_t vocabulary_;
  SequenceOptions options_;
  uint64_t seed_;
  bool joined_;
};

}  // namespace hydramix
