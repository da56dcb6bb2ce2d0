// SPDX-License-Identifier: Apache-2.0
#include "data/masked_batch.h"

#include <algorithm>

#include "data/joined_documents.h"
#include "data/shuffle.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// Keys of the random streams.
constexpr uint64_t kTraining = 1, kEvaluation = 2;

bool is_joined(const SequenceOptions& options) { return options.long_documents == "join"; }

}  // namespace

std::unique_ptr<Documents> sequence_documents(std::unique_ptr<Documents> documents,
                                              const SequenceOptions& options,
                                              const Tokenizer& tokenizer) {
  if (!is_joined(options)) return documents;
  return std::make_unique<JoinedDocuments>(std::move(documents), options.max_length - 1,
                                           tokenizer.special().sep);
}

MaskedBatches::MaskedBatches(const Documents& documents, const Tokenizer& tokenizer,
                             const SequenceOptions& options, uint64_t seed)
    : documents_(documents),
      special_(tokenizer.special()),
      vocabulary_(tokenizer.size()),
      options_(options),
      seed_(seed),
      joined_(is_joined(options)) {
  HYDRAMIX_CHECK(documents.size() > 0, "data: there is not a single document.");
  HYDRAMIX_CHECK(documents.tokenizer_fingerprint() == tokenizer.fingerprint(),
                 "data: the documents were tokenized with another vocabulary (fingerprint ",
                 documents.tokenizer_fingerprint(), ") than the one given (",
                 tokenizer.fingerprint(), "). Tokenize them again, or give theirs.");
}

void MaskedBatches::add(MaskedBatch& batch, int64_t document, bool window, double share,
                        Random& random) const {
  thread_local std::vector<int32_t> text;
  text.clear();
  documents_.read(document, text);
  const auto length = static_cast<int64_t>(text.size());
  const int64_t taken = std::min(length, options_.max_length - (joined_ ? 1 : 2));
  const int64_t begin = window ? random.below(length - taken + 1) : 0;
  batch.documents.push_back(document);
  batch.begins.push_back(begin);
  batch.ids.push_back(special_.cls);
  for (int64_t i = begin; i < begin + taken; ++i) {
    const int64_t id = text[static_cast<std::size_t>(i)];
    const bool special = id == special_.cls || id == special_.sep || id == special_.pad;
    int64_t shown = id;
    if (!special && random.uniform() < share) {
      batch.positions.push_back(static_cast<int64_t>(batch.ids.size()));
      batch.targets.push_back(id);
      const double fate = random.uniform();
      if (fate < 0.8)
        shown = special_.mask;
      else if (fate < 0.9)
        shown = random.below(vocabulary_);
    }
    batch.ids.push_back(shown);
  }
  if (!joined_) batch.ids.push_back(special_.sep);
  batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
}

MaskedBatch MaskedBatches::training(int64_t first, int64_t count) const {
  MaskedBatch batch;
  batch.first = first;
  batch.offsets.push_back(0);
  const int64_t n = documents_.size();
  for (int64_t number = first; number < first + count; ++number) {
    const auto epoch = static_cast<uint64_t>(number / n);
    const int64_t document = Shuffle(n, seed_, epoch)(number % n);
    Random random(seed_, kTraining, static_cast<uint64_t>(number));
    add(batch, document, options_.long_documents == "window", options_.mask, random);
  }
  return batch;
}

MaskedBatch MaskedBatches::evaluation(int64_t first, int64_t count) const {
  MaskedBatch batch;
  batch.first = first;
  batch.offsets.push_back(0);
  for (int64_t document = first; document < first + count; ++document) {
    // The seed is not part of the key, so all models are evaluated on the same masks.
    Random random(0, kEvaluation, static_cast<uint64_t>(document));
    add(batch, document, false, options_.evaluation_mask, random);
  }
  return batch;
}

}  // namespace hydramix
