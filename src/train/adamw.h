// SPDX-License-Identifier: Apache-2.0
// AdamW with clipping by the global norm and an optional average of the weights, over flat buffers
// in one fused pass, on the CPU and on a GPU (float64 there by LibTorch's operations).
//
//   g   = gradient / weight of the loss, scaled so that its norm is at most `clip`
//   m   = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w   = keep w - share rate  m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
//   decay_rule: decoupled    keep = 1 - share decay          Composer's DecoupledAdamW
//   decay_rule: times_rate   keep = 1 - share rate decay     torch.optim.AdamW
//
// `share` is the schedule's. A decay belongs to one of the two rules: 1e-2 is meant for times_rate;
// as a decoupled decay it would erase the weights within a few hundred steps.
//
//   average = d average + (1 - d) w,   d = ema, or min(ema, (1 + t) / (10 + t)) with ema_warmup,
//                                      t the number of earlier steps
#pragma once

#include <string>
#include <vector>

#include "hydramix/options.h"
#include "ops/adamw.h"
#include "train/flat_parameters.h"
#include "train/parameter_groups.h"

namespace hydramix {

struct AdamWOptions {
  double rate = 8e-4;
  double beta1 = 0.9, beta2 = 0.98;
  double epsilon = 1e-6;
  double decay = 1e-5;
  std::string decay_rule = "decoupled";
  std::vector<std::string> groups;
  double clip = 1.0;
  double ema = 0.0;
  bool ema_warmup = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("rate", self.rate, Range{0.0, 1e3}, "learning rate at its peak");
    v("beta1", self.beta1, Range{0.0, 0.9999999},
      "share of the mean gradient that each step keeps");
    v("beta2", self.beta2, Range{0.0, 0.9999999}, "share of the mean square that each step keeps");
    v("epsilon", self.epsilon, Range{0.0, 1.0}, "keeps the denominator from zero");
    v("decay", self.decay, Range{0.0, 1.0},
      "weight decay at the peak rate; none on norms, biases, A_log, dt_bias, D");
    v("decay_rule", self.decay_rule, Choices{"decoupled", "times_rate"},
      "share of a weight that a step subtracts: decay, or learning rate times decay as in torch's "
      "AdamW");
    v("groups", self.groups,
      "weights with a rate or decay of their own, each \"PATTERN rate=R decay=D\": PATTERN is a "
      "regular expression found in the weight's name, R a peak rate or x0.1 for a share of the "
      "common one; the first group that fits counts");
    v("clip", self.clip, Range{0.0, kInfinity}, "largest norm of the gradient; inf: not clipped");
    v("ema", self.ema, Range{0.0, 0.9999999},
      "share of the average of the weights that each step keeps; 0: no average");
    v("ema_warmup", self.ema_warmup,
      "keep at most (1 + t) / (10 + t) after t steps, to forget the initial weights");
  }
};

class AdamW {
 public:
  AdamW(FlatParameters& parameters, const AdamWOptions& options);

  // One step. gradients() holds the gradient of `loss`, a sum of `terms` terms; both are scalars in
  // float64 on the device of the parameters. Returns the norm of the gradient of the mean loss,
  // a scalar like them. If it or the loss is not finite, the step changes nothing. The caller
  // learns that later and then calls forget_step().
  torch::Tensor step(double rate_share, const torch::Tensor& loss, const torch::Tensor& terms);
  void forget_step() { --steps; }

  // The state that a checkpoint holds, (n) each; the average is undefined without ema.
  torch::Tensor& mean() { return mean_; }
  torch::Tensor& square() { return square_; }
  torch::Tensor& average() { return average_; }
  // Exchanges the weights and their average. Doing it twice restores every bit.
  void swap_average();
  int64_t steps = 0;  // taken

 private:
  FlatParameters& parameters_;
  AdamWOptions options_;
  ParameterGroups groups_;
  AdamWPlan plan_;
  torch::Tensor mean_, square_, average_;
  torch::Tensor rounded_;  // (n) bfloat16: the weights, on a GPU
};

}  // namespace hydramix
