// SPDX-License-Identifier: Apache-2.0
// Mixes two sequences of different lengths with Hydra, and materialises its matrix.
#include <hydramix/hydramix.h>

#include <iostream>

int main() {
  hydramix::BlockOptions options;
  options.mixer = "hydra";
  options.d_model = 32;
  options.headdim = 16;
  hydramix::Block block(options);

  const auto packed = torch::randn({1, 12, 32});  // two sequences, of 5 and 7 tokens
  const auto layout = hydramix::Layout::packed(torch::tensor({0, 5, 12}));
  const auto y = block->forward(packed, layout);
  const auto M = block->materialize(packed, layout);
  std::cout << "y " << y.sizes() << ", M " << M.sizes() << ", mixers "
            << hydramix::mixer_names().size() << "\n";
  return torch::isfinite(y).all().item<bool>() && hydramix::mixer_names().size() >= 23 ? 0 : 1;
}
