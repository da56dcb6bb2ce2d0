// SPDX-License-Identifier: Apache-2.0
// hydramix demo: the framework on this machine, on built-in data, in about a minute.
//   1. The law mix == materialize @ x for every registered mixer, alone and packed among others.
//   2. Two small masked-LM encoders, equal but for the mixer, learn a language in which half of the
//      masked words can be known from the left and half only from the right.
#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"
#include "hydramix/bert.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct DemoOptions {
  int64_t steps = 400;
  int64_t batch = 32;
  int64_t length = 48;
  int64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("steps", self.steps, Range{1, 100000}, "training steps of each model");
    v("batch", self.batch, Range{1, 4096}, "sequences a step");
    v("length", self.length, Range{16, 4096}, "length of a sequence");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of data and weights");
  }
};

// ---- 1. the law ----

double worst(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

void show_law() {
  torch::NoGradGuard no_grad;
  const int64_t L = 65, cut = 22;
  const Heads heads{2, 4};
  std::printf(
      "The law mix == matrix @ x, in float64 at L = %lld, and a sequence packed behind "
      "another:\n\n",
      static_cast<long long>(L));
  std::printf("  %-30s %-10s %10s %10s\n", "mixer", "cost", "law", "packed");
  for (const auto& name : mixer_names()) {
    const auto mixer =
        make_mixer(name, heads, {.qk_dim = 3, .d_state = 4, .max_length = L, .tile = 16});
    mixer->to(torch::kFloat64);
    const auto x = torch::randn({1, L, heads.H, heads.P}, torch::kFloat64);
    const auto params = torch::randn({1, L, mixer->params_width()}, torch::kFloat64);
    const double law = worst(mixer->mix(x, params), dense_apply(mixer->materialize(params, L), x));
    const auto packed = mixer->mix(x, params, Layout::packed(torch::tensor({int64_t{0}, cut, L})));
    const auto alone = mixer->mix(x.narrow(1, cut, L - cut), params.narrow(1, cut, L - cut));
    std::printf("  %-30s %-10s %10.1e %10.1e\n", name.c_str(), mixer_info(name).cost.c_str(), law,
                worst(packed.narrow(1, cut, L - cut), alone));
  }
}

// ---- 2. the language ----

// A sequence opens and closes with a name. Between them, among filler, stand pronouns: "former" is
// followed by the name at the start, "latter" by the name at the end. The names behind pronouns are
// masked, so the first kind needs the left context and the second kind the right one.
constexpr int64_t kMask = 1, kFormer = 2, kLatter = 3, kNames = 4, kNameCount = 8,
                  kFiller = kNames + kNameCount, kFillerCount = 20, kVocab = kFiller + kFillerCount;

struct Batch {
  torch::Tensor ids, labels;  // (B, L); labels 0 where nothing is asked
  torch::Tensor left, right;  // (B, L) bool: asked, and known from that side
};

Batch make_batch(int64_t B, int64_t L) {
  const auto first = torch::randint(kNames, kFiller, {B, 1}, torch::kInt64);
  const auto last = torch::randint(kNames, kFiller, {B, 1}, torch::kInt64);
  auto ids = torch::randint(kFiller, kVocab, {B, L}, torch::kInt64);
  ids.narrow(1, 0, 1).copy_(first);
  ids.narrow(1, L - 1, 1).copy_(last);
  Batch batch{ids, torch::zeros_like(ids), torch::zeros({B, L}, torch::kBool),
              torch::zeros({B, L}, torch::kBool)};
  for (int64_t at = 4; at + 6 < L; at += 5) {
    const auto is_former = torch::rand({B, 1}) < 0.5;
    ids.narrow(1, at, 1).copy_(torch::where(is_former, torch::full({B, 1}, kFormer, torch::kInt64),
                                            torch::full({B, 1}, kLatter, torch::kInt64)));
    ids.narrow(1, at + 1, 1).fill_(kMask);
    batch.labels.narrow(1, at + 1, 1).copy_(torch::where(is_former, first, last));
    batch.left.narrow(1, at + 1, 1).copy_(is_former);
    batch.right.narrow(1, at + 1, 1).copy_(~is_former);
  }
  return batch;
}

struct Accuracy {
  double left, right;
};

Accuracy train(const std::string& mixer, const DemoOptions& o) {
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  BertOptions options;
  options.vocab = kVocab;
  options.layers = 2;
  options.block.mixer = mixer;
  options.block.d_model = 64;
  options.block.headdim = 32;
  options.block.mixer_options.d_state = 16;
  BertForMaskedLM model(options);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  {
    Progress progress("  " + mixer, o.steps, "steps");
    for (int64_t step = 0; step < o.steps; ++step) {
      const auto batch = make_batch(o.batch, o.length);
      const auto loss =
          BertForMaskedLMImpl::loss(model->predict(model->encode(batch.ids, {})), batch.labels);
      HYDRAMIX_CHECK(std::isfinite(loss.item<double>()), "demo: the loss of ", mixer,
                     " is not finite at step ", step, ".");
      optimizer.zero_grad();
      loss.backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
      char note[32];
      std::snprintf(note, sizeof note, "loss %.3f", loss.item<double>());
      progress.advance(note);
    }
  }
  torch::NoGradGuard no_grad;
  const auto batch = make_batch(256, o.length);
  const auto right_answer = model->predict(model->encode(batch.ids, {})).argmax(-1) == batch.labels;
  const auto share = [&](const torch::Tensor& of) {
    return 100.0 * (right_answer & of).sum().item<double>() / of.sum().item<double>();
  };
  return {share(batch.left), share(batch.right)};
}

int demo(const DemoOptions& options) {
  torch::manual_seed(static_cast<uint64_t>(options.seed));
  show_law();
  std::printf(
      "\nTwo 2-layer masked-LM encoders, %lld steps each; names masked, %lld to choose from:\n\n",
      static_cast<long long>(options.steps), static_cast<long long>(kNameCount));
  std::fflush(stdout);
  const auto causal = train("semiseparable", options);
  const auto hydra = train("hydra", options);
  std::printf("\n  %-30s %20s %20s\n", "accuracy, unseen sequences", "name on the left",
              "name on the right");
  std::printf("  %-30s %18.1f %% %18.1f %%\n", "semiseparable (causal)", causal.left, causal.right);
  std::printf("  %-30s %18.1f %% %18.1f %%\n", "hydra (quasiseparable)", hydra.left, hydra.right);
  std::printf(
      "\nChance is %.1f %%. Next: hydramix info mixers; hydramix matrix --all --out gallery.png\n",
      100.0 / kNameCount);
  return 0;
}

}  // namespace

Command demo_command() {
  return make_command<DemoOptions>("demo",
                                   "see the framework work on built-in data, about a minute", demo);
}

}  // namespace hydramix
