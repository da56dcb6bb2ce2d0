// SPDX-License-Identifier: Apache-2.0
// Decoupled AdamW with clipping by the global norm and an optional average of the weights, over
// flat buffers in one fused pass, on the CPU and on a GPU (float64 there by LibTorch's operations).
//
//   g   = gradient / weight of the loss, scaled so that its norm is at most `clip`
//   m   = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w   = (1 - share decay) w - share rate  m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// `share` is the schedule's: decay follows the schedule but not the size of the rate, so the two
// can be chosen apart.
#pragma once

#include "hydramix/options.h"
#include "train/flat_parameters.h"

namespace hydramix {

namespace on_cuda {
class AdamWPass;
}
namespace kernels {
struct AdamWStep;
}

struct AdamWOptions {
  double rate = 8e-4;
  double beta1 = 0.9, beta2 = 0.98;
  double epsilon = 1e-6;
  double decay = 1e-5;
  double clip = 1.0;
  double ema = 0.0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("rate", self.rate, Range{0.0, 1e3}, "learning rate at its peak");
    v("beta1", self.beta1, Range{0.0, 0.9999999}, "what stays of the mean gradient each step");
    v("beta2", self.beta2, Range{0.0, 0.9999999}, "what stays of the mean square each step");
    v("epsilon", self.epsilon, Range{0.0, 1.0}, "keeps the denominator from zero");
    v("decay", self.decay, Range{0.0, 1.0},
      "weight decay a step at the peak rate; none on norms, biases, A_log, dt_bias, D");
    v("clip", self.clip, Range{0.0, kInfinity}, "largest norm of the gradient; inf: not clipped");
    v("ema", self.ema, Range{0.0, 0.9999999},
      "what stays of the average of the weights each step; 0: no average is kept");
  }
};

class AdamW {
 public:
  AdamW(FlatParameters& parameters, const AdamWOptions& options);

  // Norm of the gradient of the mean loss: gradients() holds that of a sum of `terms` terms.
  double gradient_norm(double terms) const;
  // One step; `norm` as gradient_norm() gave it just before.
  void step(double rate_share, double terms, double norm);

  // The state that a checkpoint holds, (n) each; the average is undefined when none is kept.
  torch::Tensor& mean() { return mean_; }
  torch::Tensor& square() { return square_; }
  torch::Tensor& average() { return average_; }
  int64_t steps = 0;  // taken

 private:
  FlatParameters& parameters_;
  AdamWOptions options_;
  std::vector<bool> decays_;  // for each range
  torch::Tensor mean_, square_, average_;
  void step_on_gpu(const kernels::AdamWStep& step, double keep, double terms);
  std::shared_ptr<on_cuda::AdamWPass> pass_;  // where there are kernels for it
  torch::Tensor rounded_;                     // (n) bfloat16: the weights
};

}  // namespace hydramix
