// SPDX-License-Identifier: Apache-2.0
// hydramix demo: three small encoders that differ only in the mixer learn the built-in language.
// Prints a table of what each can predict and a few filled masks, fine-tunes one encoder, and
// writes an HTML page.
#include <cstdio>

#include "base/formatted.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/demo_report.h"
#include "cli/demo_task.h"
#include "cli/matrix_picture.h"
#include "cli/training_progress.h"
#include "hydramix/error.h"
#include "language/language_documents.h"
#include "models/layer_matrices.h"
#include "train/metrics.h"
#include "train/pretrain.h"
#include "train/tiny_model.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct DemoOptions {
  std::string out = "runs/demo";
  int64_t steps = 800;
  int64_t batch = 32;
  int64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("out", self.out, Required{}, "folder of the runs and of report.html");
    v("steps", self.steps, Range{1, 1 << 20}, "training steps of each model");
    v("batch", self.batch, Range{1, 4096}, "documents per step");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of weights, masks and order");
  }
};

struct Contender {
  std::string name, summary, mixer;
  int64_t headdim, positions, d_state, qk_dim;
};

// All have nearly the same number of parameters: attention spends on queries and keys what Hydra
// spends on its state. Attention alone ignores order, so it gets positions, as in BERT. The
// convolution of a causal mixer is causal too.
const std::vector<Contender>& contenders() {
  static const std::vector<Contender> all{
      {"hydra", "quasiseparable: both directions, linear in the length", "hydra", 32, 0, 16, 16},
      {"mamba", "semiseparable: left to right, linear in the length", "semiseparable", 32, 0, 48,
       16},
      {"attention", "softmax(Q K^T): both directions, quadratic in the length", "attention_dd", 64,
       128, 16, 12}};
  return all;
}

// The recipe tiny, shorter and with the contender's mixer.
PretrainOptions options_of(const Contender& contender, const DemoOptions& demo) {
  auto options = tiny_pretraining();
  options.out = (std::filesystem::path(demo.out) / contender.name).string();
  options.device = "cpu";
  options.model.positions = contender.positions;
  auto& block = options.model.block;
  block.mixer = contender.mixer;
  block.headdim = contender.headdim;
  block.mixer_options.d_state = contender.d_state;
  block.mixer_options.qk_dim = contender.qk_dim;
  block.mixer_options.max_length = 128;
  options.data.evaluation_documents = 500;
  auto& train = options.train;
  train.steps = demo.steps;
  train.batch = train.micro_batch = demo.batch;
  train.seed = demo.seed;
  train.log_every = 10;
  train.evaluate_every = train.checkpoint_every = demo.steps;
  return options;
}

// ---- training ----

DemoModel train(const Contender& contender, const DemoOptions& demo) {
  const auto options = options_of(contender, demo);
  DemoModel model;
  model.name = contender.name;
  model.summary = contender.summary;
  PretrainEvents events;
  static_cast<TrainEvents&>(events) = training_progress("  " + contender.name);
  const auto result = pretrain(options, events);
  if (result.end == Trainer::End::kInterrupted) return model;
  model.parameters = result.parameters;
  model.evaluation = result.evaluation;

  // The file covers all starts of the run, if it was interrupted.
  double rates = 0, count = 0;
  read_metrics(
      std::filesystem::path(options.out) / "metrics.jsonl",
      [&](const std::string&, const nlohmann::json& object) {
        if (!object.contains("loss") || !object["loss"].is_number()) return;  // a skipped step
        model.losses.emplace_back(object["step"].get<double>(), object["loss"].get<double>());
        rates += object.value("tokens_per_second", 0.0);
        ++count;
      },
      [](const std::string& warning) { std::fprintf(stderr, "%s\n", warning.c_str()); });
  model.tokens_per_second = rates / std::max(count, 1.0);
  return model;
}

// ---- inspecting the trained models ----

const Language& language() {
  static const Language spoken(tiny_pretraining().data.language);
  return spoken;
}

// A document that no model has seen.
Document example(int64_t number) { return language().document(number, Split::kTest); }

// Whole sentences at the beginning of a document, so few that their words can be read along the
// axes of a matrix.
Document short_example() {
  constexpr std::size_t kMostWords = 20;
  auto document = example(0);
  auto& words = document.words;
  std::size_t end = std::min(words.size(), kMostWords);
  for (const int32_t begin : document.sentences)
    if (begin > 0 && static_cast<std::size_t>(begin) <= kMostWords)
      end = static_cast<std::size_t>(begin);
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(end), words.end());
  return document;
}

torch::Tensor ids_of(const Document& document, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids{tokenizer.special().cls};
  for (const auto& word : document.words) ids.push_back(word.id);
  ids.push_back(tokenizer.special().sep);
  return torch::tensor(ids, torch::kInt64).unsqueeze(0);
}

// Adds the matrices of every layer and head for one document, with its tokens along the axes.
void add_matrices(DemoModel& model, const TrainedModel& trained, const Document& document) {
  const auto ids = ids_of(document, trained.tokenizer);
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < ids.size(1); ++i)
    tokens.push_back(trained.tokenizer.token(ids[0][i].item<int32_t>()));
  const auto layers =
      layer_matrices(*trained.model, trained.model->options(),
                     [&](const auto& observe) { trained.model->encode(ids, {}, {}, {}, observe); });
  double most = -1;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (int64_t h = 0; h < layers[layer].size(0); ++h) {
      const auto M = layers[layer][h];
      if (const double share = share_of_others(M); share > most) {
        most = share;
        model.shown = model.matrices.size();
      }
      auto picture = matrix_picture(concat("layer ", layer + 1, ", head ", h + 1), M);
      picture.row_labels = picture.col_labels = tokens;
      model.matrices.push_back(std::move(picture));
    }
}

// The words of a document with [MASK] at one place.
std::string masked_text(const Document& document, int64_t at, const Tokenizer& tokenizer) {
  std::string text;
  for (std::size_t i = 0; i < document.words.size(); ++i)
    text += (i > 0 ? " " : "") + (static_cast<int64_t>(i) == at
                                      ? std::string("[MASK]")
                                      : tokenizer.token(document.words[i].id));
  return text;
}

// Masks one place of a document and asks each model for the likeliest word.
DemoFill fill_one_mask(const std::vector<TrainedModel>& models, const Document& document,
                       std::size_t at, const std::string& kind) {
  torch::NoGradGuard no_grad;
  const auto& tokenizer = models.front().tokenizer;
  const auto place = static_cast<int64_t>(at);
  DemoFill fill{
      masked_text(document, place, tokenizer), {}, tokenizer.token(document.words[at].id), kind};
  auto ids = ids_of(document, tokenizer);
  ids[0][place + 1] = tokenizer.special().mask;
  for (const auto& trained : models) {
    const auto hidden = trained.model->encode(ids, {})[0][place + 1];
    fill.answers.push_back(
        tokenizer.token(trained.model->predict(hidden).argmax().item<int32_t>()));
  }
  return fill;
}

// Two examples of each kind of dependency, each the first of its kind in a short document.
std::vector<DemoFill> fill_masks(const std::vector<TrainedModel>& models) {
  constexpr std::size_t kLongest = 50, kExamples = 2;
  std::vector<DemoFill> fills;
  int64_t number = 0;
  for (const auto& [kind, head] : demo_columns()) {
    for (std::size_t found = 0; found < kExamples; ++number) {
      const auto document = example(number);
      const auto word =
          std::find_if(document.words.begin(), document.words.end(),
                       [&, name = kind](const Word& w) { return kind_name(w.kind) == name; });
      if (document.words.size() > kLongest || word == document.words.end()) continue;
      const auto at = static_cast<std::size_t>(word - document.words.begin());
      fills.push_back(fill_one_mask(models, document, at, head));
      ++found;
    }
  }
  return fills;
}

// ---- printing ----

void print_table(const std::vector<DemoModel>& models) {
  std::printf("\n  %-16s %10s %9s %6s", "", "parameters", "tokens/s", "loss");
  for (const auto& [kind, head] : demo_columns()) std::printf(" %14s", head.c_str());
  std::printf("\n");
  for (const auto& model : models) {
    std::printf("  %-16s %10lld %9.0f %6.3f", model.name.c_str(),
                static_cast<long long>(model.parameters), model.tokens_per_second,
                model.evaluation.at("loss").get<double>());
    for (const auto& [kind, head] : demo_columns())
      std::printf(" %12.1f %%",
                  100 * model.evaluation.at("kinds").at(kind).at("accuracy").get<double>());
    std::printf("\n");
  }
  std::printf("  %-16s %10s %9s %6s", "expected ceiling", "", "", "");
  for (const auto& [kind, head] : demo_columns())
    std::printf(
        " %12.1f %%",
        100 * models.front().evaluation.at("kinds").at(kind).at("achievable").get<double>());
  std::printf("\n\n");
}

void print_fills(const std::vector<DemoFill>& fills, const std::vector<DemoModel>& models) {
  for (const auto& fill : fills) {
    std::printf("  %s\n    ", fill.text.c_str());
    for (std::size_t i = 0; i < models.size(); ++i)
      std::printf("%s%s: %s%s", i > 0 ? "   " : "", models[i].name.c_str(), fill.answers[i].c_str(),
                  fill.answers[i] == fill.right ? "" : " (wrong)");
    std::printf("   [%s]\n", fill.kind.c_str());
  }
}

int demo(const DemoOptions& options) {
  keep_memory_mapped();
  std::printf(
      "Three encoders of two layers learn a made-up language by filling in masked words.\n");
  std::fflush(stdout);
  const Interrupt interrupt;  // covers everything, so that a signal between two runs is not lost
  DemoReport report;
  std::vector<TrainedModel> trained;
  const auto document = short_example();
  for (const auto& contender : contenders()) {
    auto model = train(contender, options);
    if (model.parameters == 0 || Interrupt::signal() != 0) return stopped_by_signal(options.out);
    trained.push_back(
        open_trained_model(std::filesystem::path(options.out) / contender.name / "model"));
    add_matrices(model, trained.back(), document);
    report.models.push_back(std::move(model));
  }
  report.fills = fill_masks(trained);
  report.command = formatted("hydramix demo --steps %lld --batch %lld --seed %lld", options.steps,
                             options.batch, options.seed);
  print_table(report.models);
  print_fills(report.fills, report.models);
  std::printf("\nThe pretrained hydra learns to judge sentences.\n");
  std::fflush(stdout);
  const std::filesystem::path out = options.out;
  const auto task = finetune_demo(out / "hydra", out, options.seed);
  if (!task) return stopped_by_signal(options.out);
  report.task = *task;
  std::printf("  %s (%s): %s %.1f %%, by chance %.1f %%\n", task->name.c_str(),
              task->question.c_str(), task->metric.c_str(), 100 * task->value, 100 * task->chance);
  const auto page = out / "report.html";
  write_demo_report(page, report);
  std::printf(
      "\nCurves and learned matrices: %s\n"
      "Next: hydramix fill-mask --model %s/hydra \"before [MASK] left , anna was sad .\"; "
      "hydramix pretrain recipes/tiny.yaml\n",
      page.c_str(), options.out.c_str());
  return 0;
}

}  // namespace

Command demo_command() {
  return make_command<DemoOptions>(
      "demo", "train three small encoders on a made-up language and compare what they learn", demo,
      "About two and a half minutes on two cores. A stopped demo continues; a complete one is "
      "shown again. To train again, or with other options, choose another --out.");
}

}  // namespace hydramix
