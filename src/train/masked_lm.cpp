// SPDX-License-Identifier: Apache-2.0
#include "train/masked_lm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hydramix/error.h"
#include "models/encoder_parts.h"
#include "ops/host_copy.h"
#include "ops/sequences.h"
#include "train/profile.h"

namespace hydramix {
namespace {

torch::Tensor on_host(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kInt64);
}

bool is_packed(const BlockOptions& block) {
  return mixer_info(block.mixer, block.mixer_options).packed;
}

}  // namespace

// The number of captured steps kept; each holds the activations of all layers.
constexpr std::size_t kMaxCapturedSteps = 2;
// The number of masked positions of a captured step is rounded up to a multiple of this.
constexpr int64_t kPlacesMultiple = 512;

struct MaskedLm::Tensors {
  torch::Tensor ids;                 // (1, n)
  Layout layout;                     // packed
  torch::Tensor positions, targets;  // (m)
  DropoutKey dropout;
  std::vector<int64_t> offsets;
};

MaskedLm::MaskedLm(BertForMaskedLM model, const MaskedBatches& training,
                   const Documents& validation, const MaskedBatches& validation_batches,
                   const MaskedLmSettings& settings)
    : model_(std::move(model)),
      training_(training),
      validation_(validation),
      validation_batches_(validation_batches),
      settings_(settings),
      packed_(is_packed(model_->options().block)),
      captured_(settings.graphs, kMaxCapturedSteps, settings.message) {
  // Two operations per weight and token forward, four backward. Embeddings are looked up, not
  // multiplied, except in the head, which runs on masked positions.
  for (const auto& item : model_->named_parameters())
    if (item.value().dim() == 2 && item.key().find("encoder") != std::string::npos)
      flops_per_token_ += 6.0 * static_cast<double>(item.value().numel());
  const auto d_model = static_cast<double>(model_->options().block.d_model);
  flops_per_place_ = 6 * d_model * (d_model + static_cast<double>(model_->options().vocab));
}

MaskedLm::Tensors MaskedLm::upload(const MaskedBatch& batch, bool rounded_up) const {
  std::vector<int64_t> numbers(batch.documents.size());
  std::iota(numbers.begin(), numbers.end(), batch.first);
  model_->check_ids(on_host(batch.ids).unsqueeze(0), {});
  check_numbers("targets", on_host(batch.targets), model_->options().vocab);
  const auto& device = settings_.device;
  auto positions = batch.positions, targets = batch.targets;
  if (rounded_up) {
    const auto rounded =
        (positions.size() + kPlacesMultiple - 1) / kPlacesMultiple * kPlacesMultiple;
    positions.resize(rounded, 0);
    targets.resize(rounded, -1);
  }
  return {hydramix::upload(batch.ids, device).unsqueeze(0),
          Layout::packed(on_host(batch.offsets)),
          hydramix::upload(positions, device),
          hydramix::upload(targets, device),
          {settings_.seed, hydramix::upload(numbers, device)},
          batch.offsets};
}

MaskedLoss MaskedLm::gradients(const Tensors& t) {
  const auto hidden = model_->encode(t.ids, {}, t.layout, t.dropout);
  const auto loss = model_->masked_loss(hidden, t.positions, t.targets);
  loss.sum.backward();
  return {loss.sum.detach(), loss.correct};
}

// Lengths recur with packed sequences of fixed length. Without kernels for packed sequences the
// work on several lengths depends on them in more than its sizes.
MaskedLoss MaskedLm::captured_gradients(const Tensors& t) {
  const bool have_one_length = !t.layout.valid().defined();
  if (!packed_ && !have_one_length) return gradients(t);
  CapturedSteps::Step step;
  step.shape = t.offsets;
  step.inputs = {t.ids, t.positions, t.targets, t.dropout.sequences};
  step.run = [&](const std::vector<torch::Tensor>& inputs) -> std::vector<torch::Tensor> {
    const auto loss = gradients(
        {inputs[0], t.layout, inputs[1], inputs[2], {settings_.seed, inputs[3]}, t.offsets});
    return {loss.sum, loss.correct};
  };
  step.prepare = [&] { make_table(t.layout.sequences(1, t.ids.size(1)), t.ids.device()); };
  step.owner = std::make_shared<Layout>(t.layout);
  const auto results = captured_.run(step);
  return {results[0], results[1]};
}

// The batch, prefetched during the previous one, or made now.
MaskedBatch MaskedLm::batch(Slice slice) {
  if (coming_batch_.valid()) {
    auto ready = coming_batch_.get();
    if (coming_.first == slice.first && coming_.count == slice.count) return ready;
  }
  return training_.training(slice.first, slice.count);
}

Totals MaskedLm::accumulate(Slice slice, std::optional<Slice> next) {
  const auto masked = [&] {
    const Profile::Span span(profile, "batch");
    return batch(slice);
  }();
  if (next) {
    coming_ = *next;
    coming_batch_ = std::async(std::launch::async, [this, what = *next] {
      return training_.training(what.first, what.count);
    });
  }
  Totals totals;
  totals.tokens = static_cast<double>(masked.ids.size());
  totals.terms = static_cast<double>(masked.positions.size());
  totals.flops = totals.tokens * flops_per_token_ + totals.terms * flops_per_place_;
  if (masked.positions.empty()) return totals;  // in few and short sequences no token may be chosen
  const auto t = [&] {
    const Profile::Span span(profile, "upload");
    return upload(masked, settings_.graphs);
  }();
  model_->train();
  const Profile::Span span(profile, "forward, backward");
  const auto loss = captured_gradients(t);
  totals.set_sums(loss.sum, loss.correct);
  return totals;
}

void MaskedLm::evaluate(const MaskedBatch& batch, std::vector<double>& sums) {
  const auto t = upload(batch);
  const auto hidden = model_->encode(t.ids, {}, t.layout).flatten(0, 1);
  const int64_t m = t.positions.numel();
  std::vector<char> right;  // for each masked position
  constexpr int64_t kChunk = 1024;
  for (int64_t done = 0; done < m; done += kChunk) {
    const int64_t count = std::min(kChunk, m - done);
    const auto targets = t.targets.narrow(0, done, count).unsqueeze(1);
    const auto logits = model_->predict(hidden.index_select(0, t.positions.narrow(0, done, count)))
                            .to(torch::kFloat64);
    sums[0] += (logits.logsumexp(1) - logits.gather(1, targets).squeeze(1)).sum().item<double>();
    const auto hits = (logits.argmax(1, true) == targets).squeeze(1).to(torch::kCPU);
    for (int64_t i = 0; i < count; ++i) right.push_back(hits[i].item<bool>() ? 1 : 0);
  }
  sums[1] += static_cast<double>(m);
  for (const char hit : right) sums[2] += hit;
  if (validation_.kinds().empty()) return;

  // Kinds are counted only at [MASK], because an unchanged or replaced word gives information about
  // itself. Replaced words are hidden from the model as well.
  std::size_t place = 0;
  for (std::size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    const int64_t first = batch.offsets[s] + 1, end = batch.offsets[s + 1] - 1;
    const int64_t begin = batch.begins[s], document = batch.documents[s];
    const std::size_t place_of_sequence = place;
    std::vector<char> hidden_words(static_cast<std::size_t>(validation_.length(document)), 1);
    std::fill_n(hidden_words.begin() + begin, end - first, 0);  // the rest was truncated
    for (; place < batch.positions.size() && batch.positions[place] < end; ++place)
      if (batch.ids[static_cast<std::size_t>(batch.positions[place])] != batch.targets[place])
        hidden_words[static_cast<std::size_t>(begin + batch.positions[place] - first)] = 1;
    const auto dependencies = validation_.dependencies(document, hidden_words);
    for (std::size_t p = place_of_sequence; p < place; ++p) {
      const auto at = static_cast<std::size_t>(batch.positions[p]);
      if (batch.ids[at] != validation_batches_.mask_id()) continue;
      const auto& dependency =
          dependencies[static_cast<std::size_t>(begin) + at - static_cast<std::size_t>(first)];
      double* kind = &sums[3 + 3 * static_cast<std::size_t>(dependency.kind)];
      kind[0] += 1;
      kind[1] += right[p];
      kind[2] += dependency.achievable;
    }
  }
}

std::vector<double> MaskedLm::evaluate(int64_t rank, int64_t ranks) {
  torch::NoGradGuard no_grad;
  model_->eval();
  const int64_t documents = settings_.evaluation_documents > 0
                                ? std::min(settings_.evaluation_documents, validation_.size())
                                : validation_.size();
  std::vector<double> sums(3 + 3 * validation_.kinds().size());
  // Ranks share out batches, not documents, so that a batch is the same on any number of ranks.
  for (int64_t i = rank; i * settings_.micro_batch < documents; i += ranks) {
    const int64_t first = i * settings_.micro_batch;
    evaluate(
        validation_batches_.evaluation(first, std::min(settings_.micro_batch, documents - first)),
        sums);
  }
  return sums;
}

nlohmann::ordered_json MaskedLm::summary(const std::vector<double>& sums) const {
  return masked_lm_summary(sums, validation_.kinds());
}

nlohmann::ordered_json masked_lm_summary(const std::vector<double>& sums,
                                         const std::vector<std::string>& kinds) {
  const double places = std::max(sums.at(1), 1.0), loss = sums[0] / places;
  nlohmann::ordered_json result{{"loss", loss},
                                {"perplexity", std::exp(loss)},
                                {"accuracy", sums[2] / places},
                                {"places", sums[1]}};
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const double count = std::max(sums.at(3 + 3 * k), 1.0);
    result["kinds"][kinds[k]] = {{"places", sums[3 + 3 * k]},
                                 {"accuracy", sums[4 + 3 * k] / count},
                                 {"achievable", sums[5 + 3 * k] / count}};
  }
  return result;
}

std::string MaskedLm::find_fault(Slice slice) {
  torch::NoGradGuard no_grad;
  const auto masked = training_.training(slice.first, slice.count);
  const auto t = upload(masked);
  model_->train();
  std::string where = "every layer's output is finite, the gradient is not";
  int64_t layer = 0;
  const auto hidden = model_->encode(t.ids, {}, t.layout, t.dropout, [&](const torch::Tensor& x) {
    if (!torch::isfinite(x).all().item<bool>() && layer >= 0) {
      where = layer == 0 ? std::string("the embedding's output is not finite")
                         : concat("the output of layer ", layer - 1, " is the first not finite");
      layer = -1;  // report only the first
    }
    if (layer >= 0) ++layer;
  });
  const double loss = model_->masked_loss(hidden, t.positions, t.targets).sum.item<double>();
  if (layer >= 0 && !std::isfinite(loss))
    where = "every layer's output is finite, the head's loss is not";
  std::string documents;
  for (std::size_t i = 0; i < masked.documents.size() && i < 8; ++i)
    documents += (i > 0 ? ", " : "") + std::to_string(masked.documents[i]);
  return concat(where, ", for sequences ", slice.first, " to ", slice.first + slice.count - 1,
                " (documents ", documents, masked.documents.size() > 8 ? ", ..." : "", ").");
}

}  // namespace hydramix
