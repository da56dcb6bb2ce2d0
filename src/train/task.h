// SPDX-License-Identifier: Apache-2.0
// What a trainer trains: sequences that have numbers, a loss that is a sum over terms, an
// evaluation that is a row of sums. Sums, because they can be added over micro-batches and ranks.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

// Sequences first .. first + count - 1.
struct Slice {
  int64_t first = 0, count = 0;
};

struct Totals {
  double loss = 0;     // summed over the terms
  double terms = 0;    // masked places, labelled examples
  double correct = 0;  // of these predicted right
  double tokens = 0;   // that went through the model
  double flops = 0;    // in matrix products, forward and backward

  void add(const Totals& other) {
    loss += other.loss;
    terms += other.terms;
    correct += other.correct;
    tokens += other.tokens;
    flops += other.flops;
  }
};

class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& model() = 0;
  // Forward and backward of the summed loss of these sequences: adds to the gradients. `next` is
  // what will be asked for after this, to be made ready in the meantime.
  virtual Totals accumulate(Slice slice, std::optional<Slice> next) = 0;
  // A rank's share of the sums that the whole evaluation consists of; as many on every rank.
  virtual std::vector<double> evaluate(int64_t rank, int64_t ranks) = 0;
  // What the added sums mean; "loss" is the mean loss.
  virtual nlohmann::ordered_json summary(const std::vector<double>& sums) const = 0;
  // Where the values first cease to be finite when these sequences go through the model, and which
  // sequences they are: for a message.
  virtual std::string find_fault(Slice slice) = 0;
  // What may help then: the end of the message.
  virtual std::string advice() const {
    return "Lower train.optimizer.rate, or look at these documents.";
  }
};

}  // namespace hydramix
