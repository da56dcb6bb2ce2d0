// SPDX-License-Identifier: Apache-2.0
// The interface between a trainer and what it trains: numbered sequences, a loss that is a sum over
// terms, and an evaluation that is a row of sums. Sums can be added over micro-batches and ranks.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

class Profile;

// Sequences first .. first + count - 1.
struct Slice {
  int64_t first = 0, count = 0;
};

struct Totals {
  // The loss summed over the terms, and the terms predicted correctly: (2) float64 on the model's
  // device, which may not have computed them yet. Undefined: zero.
  torch::Tensor sums;
  double terms = 0;   // masked positions, labelled examples
  double tokens = 0;  // tokens that went through the model
  double flops = 0;   // in matrix products, forward and backward

  void add(const Totals& other) {
    if (other.sums.defined()) sums = sums.defined() ? sums + other.sums : other.sums;
    terms += other.terms;
    tokens += other.tokens;
    flops += other.flops;
  }
  void set_sums(const torch::Tensor& loss, const torch::Tensor& correct) {
    sums = torch::stack({loss.detach().to(torch::kFloat64), correct.to(torch::kFloat64)});
  }
  // Waits for the device.
  double loss() const { return sums.defined() ? sums[0].item<double>() : 0; }
};

class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& model() = 0;
  // Forward and backward of the summed loss of these sequences; adds to the gradients. `next` are
  // the sequences of the next call, to be prefetched.
  virtual Totals accumulate(Slice slice, std::optional<Slice> next) = 0;
  // This rank's share of the sums of an evaluation; the same number of sums on every rank.
  virtual std::vector<double> evaluate(int64_t rank, int64_t ranks) = 0;
  // Turns the total sums into metrics; "loss" is the mean loss.
  virtual nlohmann::ordered_json summary(const std::vector<double>& sums) const = 0;
  // The best evaluation is the one with the lowest criterion.
  virtual double criterion(const nlohmann::ordered_json& summary) const {
    return summary.at("loss").get<double>();
  }
  // Whether an evaluation also covers the average of the weights, if the optimizer keeps one. Its
  // summary is then the key "average" of that of the weights.
  virtual bool evaluates_average() const { return false; }
  // Called on every rank with the total sums of an evaluation, before summary(). `average`: of the
  // average of the weights.
  virtual void take_sums(const std::vector<double>& /*sums*/, bool /*average*/) {}
  // For a message: the place in the model where values first cease to be finite, and the sequences.
  virtual std::string find_fault(Slice slice) = 0;
  // Where the parts of accumulate() are noted; null: nowhere.
  Profile* profile = nullptr;
  // The advice that ends that message.
  virtual std::string advice() const {
    return "Lower train.optimizer.rate, or look at these documents.";
  }
};

}  // namespace hydramix
