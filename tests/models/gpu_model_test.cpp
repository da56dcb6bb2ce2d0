// SPDX-License-Identifier: Apache-2.0
// Blocks, models and optimizer steps on a GPU compared with the CPU; deterministic, launched
// directly or as a captured graph.
#include "hydramix/bert.h"
#include "ops/graph.h"
#include "ops/hydra_inner.h"
#include "ops/projection.h"
#include "support/gpu.h"
#include "support/optimizer.h"
#include "support/tensors.h"
#include "train/adamw.h"

namespace hydramix {
namespace {

using test::is_few;
using test::kGpu;
using test::norm_error;
using test::offsets_of;
using torch::Tensor;

class GpuBlock : public test::OnGpu {};
class GpuModel : public test::OnGpu {};
class GpuMixer : public test::OnGpu, public ::testing::WithParamInterface<std::string> {};

// Moves weights away from their initial zeros, so that every term counts.
void disturb(torch::nn::Module& module, double deviation) {
  const torch::NoGradGuard no_grad;
  for (auto& p : module.parameters()) p.add_(deviation * torch::randn_like(p));
}

// A copy of a module on another device.
template <class Model>
Model twin(const Model& model, torch::Device device, torch::ScalarType type) {
  Model other(model->options());
  other->to(device, type);
  const torch::NoGradGuard no_grad;
  const auto from = model->parameters();
  auto to = other->parameters();
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  return other;
}

struct Named {
  std::string name;
  Tensor value;
};

// The output, then the gradients of u and of all weights.
std::vector<Named> outcome(Block block, const Tensor& u, const Tensor& dy, const Layout& layout) {
  block->zero_grad();
  const auto input = u.detach().requires_grad_();
  const auto y = block->forward(input, layout);
  y.backward(dy.to(y.options()));
  std::vector<Named> all{{"y", y.detach()}, {"u", input.grad()}};
  for (const auto& item : block->named_parameters())
    all.push_back({item.key(), item.value().grad().defined() ? item.value().grad().clone()
                                                             : torch::zeros_like(item.value())});
  return all;
}

struct Places {
  std::string name;
  Tensor holds_token;  // (B, L) bool
  Layout layout;
};

// Sequences about as long as a tile of the scan, and much shorter.
std::vector<Places> layouts() {
  const auto place = torch::arange(130);
  const auto mask =
      torch::stack({place < 129, place >= 127, (place > 10) & (place < 61), place < 130});
  const auto offsets = offsets_of({1, 127, 128, 129, 2, 131});
  const auto all = torch::ones({1, offsets.back()}, torch::kBool);
  return {{"full", torch::ones({3, 67}, torch::kBool), {}},
          {"padded", mask, Layout::padded(mask)},
          {"packed", all, Layout::packed(torch::tensor(offsets))}};
}

// NaN at padding, which must not be read.
Tensor random_input(const Places& places, int64_t d_model) {
  const auto u = torch::randn({places.holds_token.size(0), places.holds_token.size(1), d_model});
  return u.masked_fill(~places.holds_token.unsqueeze(2), std::numeric_limits<double>::quiet_NaN());
}

BlockOptions hydra(int64_t groups) {
  BlockOptions options;
  options.d_model = 64;
  options.headdim = 32;
  options.mixer_options.d_state = 16;
  options.mixer_options.groups = groups;
  return options;
}

void expect_close_to_float64(const Block& block, const std::string& what) {
  const auto exact = twin(block, torch::kCPU, torch::kFloat64);
  const auto ours = twin(block, kGpu, torch::kFloat32);
  for (const auto& places : layouts()) {
    const auto u = random_input(places, block->options().d_model).to(torch::kBFloat16);
    const auto dy = torch::randn(u.sizes()).to(torch::kBFloat16);
    const auto a = outcome(ours, u.to(kGpu), dy, places.layout);
    const auto again = outcome(ours, u.to(kGpu), dy, places.layout);
    const auto b = outcome(exact, u.to(torch::kFloat64), dy, places.layout);
    EXPECT_EQ(a[0].value.scalar_type(), torch::kBFloat16);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto name = what + ", " + places.name + ": " + a[i].name;
      // About ten intermediate tensors are rounded, each by 2^-9 on average.
      EXPECT_LE(norm_error(a[i].value, b[i].value), is_few(a[i].value) ? 6e-2 : 2e-2) << name;
      EXPECT_TRUE(torch::equal(a[i].value, again[i].value)) << name << ": other bits";
    }
  }
}

TEST_F(GpuBlock, HydraInBfloat16IsCloseToFloat64) {
  for (const int64_t groups : {1, 2}) {
    torch::manual_seed(1);
    Block block(hydra(groups));
    disturb(*block, 0.1);
    expect_close_to_float64(block, "groups " + std::to_string(groups));
  }
}

TEST_F(GpuBlock, AnyOptionInBfloat16IsCloseToFloat64) {
  torch::manual_seed(2);
  auto options = hydra(2);
  options.mixer_options.learn_initial_states = true;
  Block states(options);
  disturb(*states, 0.1);
  expect_close_to_float64(states, "initial states");

  options = hydra(2);
  options.bias = true;
  options.conv_bias = false;
  options.d_conv = 4;
  options.mixer_options.dt_limit_low = 0.01;
  options.mixer_options.dt_limit_high = 0.2;
  Block other(options);
  disturb(*other, 0.1);
  expect_close_to_float64(other, "biases and limits");

  options = hydra(1);
  options.headdim = 16;  // the tensor-core kernels need 32
  options.mixer_options.d_state = 12;
  Block odd(options);
  disturb(*odd, 0.1);
  expect_close_to_float64(odd, "odd sizes");
}

TEST_F(GpuBlock, HydraIsOneOperationWhereTensorCoresFit) {
  const auto is_one = [](const BlockOptions& options, torch::ScalarType type) {
    const auto& mixer = options.mixer_options;
    const HydraShape shape{
        options.heads().H, options.heads().P, mixer.groups, mixer.d_state, 3, 1e-5, {}};
    return hydra_inner_supports(torch::randn({10, shape.columns()}).to(kGpu, type), shape);
  };
  EXPECT_TRUE(is_one(hydra(1), torch::kBFloat16));
  EXPECT_TRUE(is_one(hydra(2), torch::kBFloat16));
  EXPECT_FALSE(is_one(hydra(1), torch::kFloat32));
  auto odd = hydra(1);
  odd.mixer_options.d_state = 12;
  EXPECT_FALSE(is_one(odd, torch::kBFloat16));
}

TEST_P(GpuMixer, GivesOnAGpuWhatItGivesOnTheCpu) {
  BlockOptions options;
  options.mixer = GetParam();
  options.d_model = 32;
  options.headdim = 16;
  options.mixer_options = {.qk_dim = 4, .d_state = 16, .groups = 2, .max_length = 131};
  torch::manual_seed(3);
  Block block(options);
  disturb(*block, 0.05);
  const auto exact = twin(block, torch::kCPU, torch::kFloat64);
  const auto ours = twin(block, kGpu, torch::kFloat32);
  for (const auto& places : layouts()) {
    const auto u = random_input(places, options.d_model).to(torch::kBFloat16);
    const auto dy = torch::randn(u.sizes()).to(torch::kBFloat16);
    const auto want = outcome(exact, u.to(torch::kFloat64), dy, places.layout);
    const auto single = outcome(ours, u.to(kGpu, torch::kFloat32), dy, places.layout);
    for (const std::size_t i : {0, 1})
      EXPECT_LE(norm_error(single[i].value, want[i].value), 2e-5)
          << places.name << ", float32: " << want[i].name;
    const auto half = outcome(ours, u.to(kGpu), dy, places.layout);
    for (const std::size_t i : {0, 1})
      EXPECT_LE(norm_error(half[i].value, want[i].value), 5e-2)
          << places.name << ", bfloat16: " << want[i].name;
    const auto again = outcome(ours, u.to(kGpu), dy, places.layout);
    for (std::size_t i = 0; i < half.size(); ++i)
      EXPECT_TRUE(torch::equal(again[i].value, half[i].value))
          << places.name << ": other bits in " << half[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuMixer, ::testing::ValuesIn(mixer_names()), test::parameter_name);

// A small encoder, its optimizer and a batch, all on one device.
struct Training {
  BertForMaskedLM model;
  FlatParameters parameters;
  AdamW optimizer;
  Layout layout = Layout::packed(torch::tensor(offsets_of(kLengths)));
  Tensor ids, positions, targets;

  inline static const std::vector<int64_t> kLengths{40, 1, 129, 86};

  static BertForMaskedLM make_model() {
    BertOptions options;
    options.vocab = 101;
    options.layers = 2;
    options.initial_deviation = 0.1;
    options.mlp.kind = "glu";
    options.mlp.width = 96;
    options.block = hydra(1);
    torch::manual_seed(4);
    return BertForMaskedLM(options);
  }
  static AdamWOptions optimizer_options() {
    AdamWOptions options;
    options.rate = 1e-2;
    options.decay = 0.1;
    options.groups = {"in_proj rate=x0.5 decay=0.2", "embeddings rate=3e-3"};
    options.clip = 0.5;
    options.ema = 0.9;
    options.ema_warmup = true;
    return options;
  }

  explicit Training(torch::Device device)
      : model(twin(make_model(), device, torch::kFloat32)),
        parameters(*model),
        optimizer(parameters, optimizer_options()) {
    torch::manual_seed(5);
    ids = torch::randint(101, {1, 256}, torch::kInt64).to(device);
    positions = torch::arange(1, 256, 3).to(device);
    targets = torch::randint(101, {85}, torch::kInt64).to(device);
  }
  void run() {
    parameters.zero_gradients();
    const auto loss = model->masked_loss(model->encode(ids, {}, layout), positions, targets);
    sum = loss.sum.detach();
    loss.sum.backward();
  }
  Tensor sum;
};

TEST_F(GpuModel, ATrainingStepInBfloat16IsCloseToFloat32OnTheCpu) {
  Training cpu(torch::kCPU), ours(kGpu);
  cpu.run();
  ours.model->set_precision(torch::kBFloat16);
  ours.run();
  EXPECT_LE(norm_error(ours.sum, cpu.sum), 1e-2);
  EXPECT_LE(norm_error(ours.parameters.gradients(), cpu.parameters.gradients()), 3e-2);
  for (std::size_t i = 0; i < cpu.parameters.ranges().size(); ++i) {
    const auto &a = ours.parameters.ranges()[i], &b = cpu.parameters.ranges()[i];
    EXPECT_LE(norm_error(a.parameter.grad(), b.parameter.grad()),
              test::is_few(a.parameter) ? 0.3 : 0.1)
        << a.name;
  }
  ours.model->set_precision(torch::kFloat32);
  ours.run();
  EXPECT_LE(norm_error(ours.parameters.gradients(), cpu.parameters.gradients()), 1e-4) << "float32";
}

TEST_F(GpuModel, ATrainingStepGivesTheSameBitsAgain) {
  for (const auto type : {torch::kBFloat16, torch::kFloat32}) {
    Training one(kGpu), other(kGpu);
    one.model->set_precision(type);
    other.model->set_precision(type);
    one.run();
    other.run();
    EXPECT_TRUE(torch::equal(one.sum, other.sum));
    EXPECT_TRUE(torch::equal(one.parameters.gradients(), other.parameters.gradients()));
    one.run();
    EXPECT_TRUE(torch::equal(one.parameters.gradients(), other.parameters.gradients()));
  }
}

TEST_F(GpuModel, AdamWIsThatOfTheCpu) {
  Training cpu(torch::kCPU), ours(kGpu);
  torch::manual_seed(6);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < cpu.parameters.ranges().size(); ++i) {
      auto& to = cpu.parameters.ranges()[i].parameter;
      to.grad().copy_(torch::randn(to.sizes()) * (step == 1 ? 1e-4 : 1.0));
    }
    ours.parameters.gradients().copy_(cpu.parameters.gradients());
    const double norm = test::take_step(cpu.optimizer, 0.6, 7);
    EXPECT_NEAR(test::take_step(ours.optimizer, 0.6, 7), norm, 1e-9 * norm);
  }
  const auto expect = [](const Tensor& a, const Tensor& b, const char* what) {
    test::expect_close(a.to(torch::kCPU), b, 1e-6, what);
  };
  expect(ours.parameters.values(), cpu.parameters.values(), "weights");
  expect(ours.optimizer.mean(), cpu.optimizer.mean(), "means");
  expect(ours.optimizer.square(), cpu.optimizer.square(), "squares");
  expect(ours.optimizer.average(), cpu.optimizer.average(), "average");
}

// Products of bfloat16 read rounded copies of the weights, which the optimizer writes.
TEST_F(GpuModel, RoundedWeightsFollowTheWeights) {
  Training training(kGpu);
  training.model->set_precision(torch::kBFloat16);
  for (int step = 0; step < 3; ++step) {
    training.run();
    test::take_step(training.optimizer, 1, 85);
    int copies = 0;
    for (const auto& range : training.parameters.ranges()) {
      copies += static_cast<int>(range.copies.size());
      const auto weight = range.parameter.detach();
      for (const auto& copy : range.copies)
        EXPECT_TRUE(torch::equal(copy.of(range.parameter), weight.to(torch::kBFloat16)))
            << range.name << " after step " << step;
    }
    EXPECT_GT(copies, 4);
  }
}

TEST_F(GpuModel, ACapturedStepGivesTheSameBits) {
  const OwnStream stream(kGpu);
  Training training(kGpu);
  training.model->set_precision(torch::kBFloat16);
  const auto first = training.ids.clone(), second = training.ids.flip({1});
  std::vector<Tensor> direct;
  for (const auto& ids : {first, second}) {
    training.ids.copy_(ids);
    training.run();
    direct.push_back(training.parameters.gradients().clone());
  }
  EXPECT_FALSE(torch::equal(direct[0], direct[1]));
  Graph graph([&] { training.run(); });
  for (const int which : {0, 1, 0}) {
    training.ids.copy_(which == 0 ? first : second);
    graph.replay();
    EXPECT_TRUE(torch::equal(training.parameters.gradients(), direct[which])) << which;
  }
}

}  // namespace
}  // namespace hydramix
