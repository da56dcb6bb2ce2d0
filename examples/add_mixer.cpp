// SPDX-License-Identifier: Apache-2.0
// A mixer of one's own, outside the library: M_ij = exp(-a_h |i - j|) with one learned number per
// head. Once registered it works wherever a mixer is named: in a block, in a model, in training.
// docs/adding_a_mixer.md explains the parts.
#include <cstdio>

#include <torch/optim/sgd.h>

#include "hydramix/bert.h"
#include "hydramix/registry.h"

namespace {

using torch::Tensor;

class Exponential : public hydramix::Mixer {
 public:
  Exponential(hydramix::Heads heads, const hydramix::MixerOptions& options)
      : Mixer(heads, options) {
    // From a reach of one position to about fifty, so that heads start out different.
    log_rate = register_parameter("log_rate", torch::linspace(-4, 0, heads.H));
  }

 protected:
  Tensor matrix(const Tensor&, const hydramix::Rows& rows) const override {
    const auto place = torch::arange(rows.L, rows.options);
    const auto distance = (place.unsqueeze(1) - place).abs();  // (L, L)
    const auto a = weight(log_rate, rows).exp().view({1, -1, 1, 1});
    return torch::exp(-a * distance);  // (1, H, L, L)
  }

 private:
  Tensor log_rate;  // (H)
};

HYDRAMIX_REGISTER_MIXER("exponential", Exponential, .matrix_class = "Toeplitz, symmetric",
                        .formula = "exp(-a |i - j|)", .cost = "O(L^2)",
                        .source = "examples/add_mixer.cpp");

}  // namespace

int main() try {
  torch::manual_seed(1);
  hydramix::BertOptions options;
  options.vocab = 100;
  options.layers = 2;
  options.block.mixer = "exponential";
  options.block.d_model = 32;
  options.block.headdim = 16;
  const hydramix::BertForMaskedLM model(options);
  torch::optim::SGD optimizer(model->parameters(), 0.5);

  // It learns that every token is followed by its successor.
  const auto ids = torch::arange(1, 21).unsqueeze(0), labels = ids + 1;
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    const auto loss = model->loss(model->predict(model->encode(ids, {})), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  std::printf("%s: loss %.2f, after 40 steps %.2f\n",
              hydramix::mixer_info("exponential").formula.c_str(), first, last);
  return last < first ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
