// SPDX-License-Identifier: Apache-2.0
// A sequence gives the same output and the same gradients alone, padded left or right, or packed
// among others, for every mixer and for the block around it, also with options that change its
// formula.
#include "hydramix/block.h"
#include "support/configurations.h"

namespace hydramix {
namespace {

using test::Configuration;
using test::expect_close;
using test::random_case;

// Outputs may differ only by the order of summation in larger products.
constexpr double kLayoutTolerance = 1e-12;

const std::vector<int64_t> kLengths{13, 1, 0, 20, 2};
constexpr int64_t kLongest = 20;

struct Arranged {
  torch::Tensor u;  // (B, L, C)
  Layout layout;
  std::vector<std::pair<int64_t, int64_t>> at;  // of each sequence: row, first place
};

// The sequences in rows of kLongest + 3 with `left` places of padding before each; padding is NaN.
Arranged padded(const std::vector<torch::Tensor>& sequences, bool on_the_left) {
  const int64_t B = static_cast<int64_t>(sequences.size()), L = kLongest + 3;
  Arranged a{torch::full({B, L, sequences[0].size(1)}, std::nan(""), torch::kFloat64), {}, {}};
  auto mask = torch::zeros({B, L}, torch::kBool);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = sequences[b].size(0), begin = on_the_left ? L - length : 0;
    a.u[b].narrow(0, begin, length).copy_(sequences[b]);
    mask[b].narrow(0, begin, length).fill_(true);
    a.at.emplace_back(b, begin);
  }
  a.layout = Layout::padded(mask);
  return a;
}

Arranged packed(const std::vector<torch::Tensor>& sequences) {
  Arranged a{torch::cat(sequences).unsqueeze(0), {}, {}};
  std::vector<int64_t> offsets{0};
  for (const auto& s : sequences) {
    a.at.emplace_back(0, offsets.back());
    offsets.push_back(offsets.back() + s.size(0));
  }
  a.layout = Layout::packed(torch::tensor(offsets));
  return a;
}

class VariableLength : public ::testing::TestWithParam<Configuration> {
 protected:
  static std::string name() { return GetParam().name(); }
};

TEST_P(VariableLength, MixerGivesTheSameAloneAndInABatch) {
  auto c = random_case(GetParam(), {.B = 1, .L = 1}, torch::kFloat64, 21);
  const int64_t H = c.mixer->heads().H, P = c.mixer->heads().P, W = c.mixer->params_width();
  std::vector<torch::Tensor> sequences;  // x and params side by side
  for (const int64_t length : kLengths)
    sequences.push_back(torch::randn({length, H * P + W}, torch::kFloat64));
  const auto run = [&](const torch::Tensor& u, const Layout& layout) {
    const auto x = u.narrow(2, 0, H * P).unflatten(2, std::vector<int64_t>{H, P});
    return c.mixer->mix(x, u.narrow(2, H * P, W), layout);
  };
  for (const auto& arranged :
       {padded(sequences, false), padded(sequences, true), packed(sequences)}) {
    auto u = arranged.u.clone().requires_grad_();
    const auto y = run(u, arranged.layout);
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>()) << "padding leaked";
    const auto dy = torch::randn_like(y);
    const auto du = torch::autograd::grad({y}, {u}, {dy})[0];
    EXPECT_TRUE(torch::isfinite(du).all().item<bool>());
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const int64_t length = sequences[s].size(0);
      const auto [row, begin] = arranged.at[s];
      if (length == 0) continue;
      auto alone = sequences[s].clone().unsqueeze(0).requires_grad_();
      const auto expected = run(alone, {});
      const auto what = name() + ", sequence of length " + std::to_string(length);
      expect_close(y[row].narrow(0, begin, length), expected[0], kLayoutTolerance, what);
      const auto upstream = dy[row].narrow(0, begin, length).unsqueeze(0);
      expect_close(du[row].narrow(0, begin, length),
                   torch::autograd::grad({expected}, {alone}, {upstream})[0][0], kLayoutTolerance,
                   what + ", gradient");
    }
    // Padding is zero in the output and gets no gradient.
    const auto outside = torch::ones({y.size(0), y.size(1)}, torch::kBool);
    for (std::size_t s = 0; s < sequences.size(); ++s)
      outside[arranged.at[s].first]
          .narrow(0, arranged.at[s].second, sequences[s].size(0))
          .fill_(false);
    EXPECT_EQ(y.flatten(2).abs().sum(2).masked_select(outside).count_nonzero().item<int64_t>(), 0);
    EXPECT_EQ(du.abs().sum(2).masked_select(outside).count_nonzero().item<int64_t>(), 0);
  }
}

TEST_P(VariableLength, BlockGivesTheSameAloneAndInABatch) {
  for (const int64_t d_conv : {7, 4}) {
    torch::manual_seed(22);
    BlockOptions options;
    options.mixer = GetParam().mixer;
    options.d_model = 6;
    options.headdim = 3;
    options.d_conv = d_conv;
    options.bias = true;  // a bias of in_proj makes padding nonzero, which must not reach a token
    options.mixer_options = GetParam().options({.qk_dim = 2,
                                                .d_state = 3,
                                                .groups = 2,
                                                .max_length = kLongest,
                                                .learn_initial_states = true,
                                                .tile = 4});
    Block block(options);
    block->to(torch::kFloat64);
    {
      torch::NoGradGuard no_grad;
      for (auto& p : block->parameters()) p.add_(0.2 * torch::randn_like(p));
    }
    std::vector<torch::Tensor> sequences;
    for (const int64_t length : kLengths)
      sequences.push_back(torch::randn({length, 6}, torch::kFloat64));
    const auto weights = block->parameters();
    const auto upstream = [](int64_t length) {  // depends on the sequence, not on its position
      return torch::cos(torch::arange(length * 6, torch::kFloat64)).view({length, 6});
    };

    // All sequences alone: outputs, and the sum of the weights' gradients.
    std::vector<torch::Tensor> outputs, input_gradients;
    std::vector<torch::Tensor> weight_gradients;
    for (const auto& p : weights) weight_gradients.push_back(torch::zeros_like(p));
    for (const auto& s : sequences) {
      auto u = s.clone().unsqueeze(0).requires_grad_();
      const auto y = block->forward(u);
      outputs.push_back(y[0]);
      std::vector<torch::Tensor> inputs{u};
      inputs.insert(inputs.end(), weights.begin(), weights.end());
      if (s.size(0) == 0) {
        input_gradients.push_back(torch::zeros_like(s));
        continue;
      }
      const auto g = torch::autograd::grad({y}, inputs, {upstream(s.size(0)).unsqueeze(0)}, false,
                                           false, true);
      input_gradients.push_back(g[0][0]);
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (g[i + 1].defined()) weight_gradients[i] += g[i + 1];
    }

    for (const auto& arranged :
         {padded(sequences, false), padded(sequences, true), packed(sequences)}) {
      auto u = arranged.u.clone().requires_grad_();
      const auto y = block->forward(u, arranged.layout);
      auto dy = torch::zeros_like(y);
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        const auto [row, begin] = arranged.at[s];
        const int64_t length = sequences[s].size(0);
        expect_close(y[row].narrow(0, begin, length), outputs[s], kLayoutTolerance, name());
        dy[row].narrow(0, begin, length).copy_(upstream(length));
      }
      std::vector<torch::Tensor> inputs{u};
      inputs.insert(inputs.end(), weights.begin(), weights.end());
      const auto g = torch::autograd::grad({y}, inputs, {dy}, false, false, true);
      for (std::size_t s = 0; s < sequences.size(); ++s)
        expect_close(
            g[0][arranged.at[s].first].narrow(0, arranged.at[s].second, sequences[s].size(0)),
            input_gradients[s], kLayoutTolerance, name() + ", gradient");
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (g[i + 1].defined())
          expect_close(g[i + 1], weight_gradients[i], kLayoutTolerance,
                       name() + ", gradient of weight " + std::to_string(i));
    }
  }
}

TEST_P(VariableLength, SequencesWithoutTokensGiveZeros) {
  const auto c = random_case(GetParam(), {.B = 2, .L = 5}, torch::kFloat64, 23);
  const auto y = c.mixer->mix(c.x, c.params, Layout::padded(torch::zeros({2, 5}, torch::kBool)));
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 5, c.mixer->branches() * 4, 3}));
  EXPECT_EQ(y.count_nonzero().item<int64_t>(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, VariableLength,
                         ::testing::ValuesIn(test::configurations(mixer_names())),
                         test::configuration_name);

}  // namespace
}  // namespace hydramix
