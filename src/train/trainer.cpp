// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/interrupt.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds since 1970.
double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Adds the parts of a flat buffer to a checkpoint, under `prefix`.
void add_parts(std::map<std::string, torch::Tensor>& tensors, const std::string& prefix,
               const FlatParameters& parameters, const torch::Tensor& buffer) {
  // One copy of the buffer, on the CPU; the parts are views of it.
  const auto copy = buffer.detach().to(torch::kCPU, buffer.scalar_type(), false, /*copy=*/true);
  for (const auto& range : parameters.ranges())
    tensors.emplace(prefix + range.name, parameters.part(copy, range));
}

void take_parts(const std::map<std::string, torch::Tensor>& tensors, const std::string& prefix,
                const FlatParameters& parameters, const torch::Tensor& buffer) {
  for (const auto& range : parameters.ranges()) {
    const auto found = tensors.find(prefix + range.name);
    HYDRAMIX_CHECK(found != tensors.end(), "the checkpoint lacks '", prefix, range.name,
                   "': it is of another model. Give this run a folder of its own.");
    HYDRAMIX_CHECK(
        found->second.sizes() == range.parameter.sizes() && found->second.dtype() == buffer.dtype(),
        "the checkpoint has '", prefix, range.name, "' as ", found->second.sizes(), " of ",
        found->second.dtype(), ", the model as ", range.parameter.sizes(), " of ", buffer.dtype(),
        ": it is of another model. Give this run a folder of its own.");
    parameters.part(buffer, range).copy_(found->second);
  }
}

// The name of a metric that is not a finite number; empty if all are.
std::string not_finite(const nlohmann::ordered_json& metrics) {
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number() && !std::isfinite(value.get<double>())) return name;
    if (!value.is_object()) continue;
    if (const std::string inner = not_finite(value); !inner.empty()) return name + "." + inner;
  }
  return "";
}

}  // namespace

int64_t examples_at_once(const TrainOptions& options, torch::Device device, int64_t tokens) {
  if (options.micro_batch > 0) return options.micro_batch;
  if (!runs_beside_host(device)) return 32;
  constexpr int64_t kTokens = 32768;
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, kTokens / tokens))));
}

Trainer::Trainer(Task& task, const TrainOptions& options, Communicator& communicator,
                 std::filesystem::path folder, TrainEvents events)
    : task_(task),
      options_(options),
      communicator_(communicator),
      folder_(std::move(folder)),
      events_(std::move(events)),
      parameters_(task.model()),
      optimizer_(parameters_, options.optimizer),
      reducer_(communicator, parameters_.parameters(), parameters_.gradients(),
               options.bucket_megabytes << 20),
      late_(runs_beside_host(parameters_.values().device())) {
  HYDRAMIX_CHECK(options.micro_batch > 0, "train: micro_batch must be chosen.");
  HYDRAMIX_CHECK(options.batch % communicator.size() == 0, "train: a batch of ", options.batch,
                 " cannot be divided among ", communicator.size(), " ranks.");
  if (is_first()) {
    checkpoints_ = std::make_unique<CheckpointFolder>(folder_ / "checkpoints", options.keep);
    checkpoints_->prepare();
    if (!options.profile.empty())
      profile_ = std::make_unique<Profile>(options.profile, parameters_.values().device());
  }
  task_.profile = profile_.get();
}

void Trainer::say(const std::string& message) const {
  if (is_first() && events_.message) events_.message(message);
}

Checkpoint Trainer::snapshot() {
  Checkpoint checkpoint;
  checkpoint.step = step_;
  checkpoint.updates = optimizer_.steps;
  checkpoint.skipped = skipped_;
  checkpoint.evaluated = evaluated_;
  checkpoint.best_loss = best_loss_;
  checkpoint.stale = stale_;
  add_parts(checkpoint.tensors, "weights.", parameters_, parameters_.values());
  add_parts(checkpoint.tensors, "mean.", parameters_, optimizer_.mean());
  add_parts(checkpoint.tensors, "square.", parameters_, optimizer_.square());
  if (optimizer_.average().defined())
    add_parts(checkpoint.tensors, "average.", parameters_, optimizer_.average());
  return checkpoint;
}

// Rank 0 reads and broadcasts, so that the others need not share its disk.
void Trainer::resume() {
  torch::NoGradGuard no_grad;
  auto counters = torch::zeros({6}, torch::kFloat64);
  if (is_first()) {
    if (const auto found = checkpoints_->newest([&](const std::string& m) { say(m); })) {
      take_parts(found->tensors, "weights.", parameters_, parameters_.values());
      take_parts(found->tensors, "mean.", parameters_, optimizer_.mean());
      take_parts(found->tensors, "square.", parameters_, optimizer_.square());
      if (optimizer_.average().defined())
        take_parts(found->tensors, "average.", parameters_, optimizer_.average());
      counters =
          torch::tensor({static_cast<double>(found->step), static_cast<double>(found->updates),
                         static_cast<double>(found->skipped), found->best_loss,
                         static_cast<double>(found->evaluated), static_cast<double>(found->stale)},
                        torch::kFloat64);
    } else {
      counters[3] = std::numeric_limits<double>::infinity();
    }
  }
  const auto device = parameters_.values().device();
  counters = counters.to(device);
  communicator_.broadcast(counters);
  counters = counters.cpu();
  step_ = static_cast<int64_t>(counters[0].item<double>());
  optimizer_.steps = static_cast<int64_t>(counters[1].item<double>());
  skipped_ = static_cast<int64_t>(counters[2].item<double>());
  best_loss_ = counters[3].item<double>();
  evaluated_ = static_cast<int64_t>(counters[4].item<double>());
  stale_ = static_cast<int64_t>(counters[5].item<double>());
  communicator_.broadcast(parameters_.values());
  communicator_.broadcast(optimizer_.mean());
  communicator_.broadcast(optimizer_.square());
  if (optimizer_.average().defined()) communicator_.broadcast(optimizer_.average());
  parameters_.mark_written();
  saved_step_ = step_ > 0 ? step_ : -1;
  if (step_ > 0) say(concat("continuing after step ", step_));
  if (is_first()) {
    metrics_ = std::make_unique<Metrics>(folder_ / "metrics.jsonl", step_,
                                         [this](const std::string& message) { say(message); });
    if (options_.tensorboard) {
      tensorboard_ = std::make_unique<TensorBoardWriter>(folder_ / "tensorboard");
      tensorboard_->start(step_, wall_time());
    }
  }
  if (is_first() && events_.started) events_.started(step_);
}

// The numbers of a step: those of Totals over all ranks, whether a rank got a signal, and the norm
// of the gradient, which update() adds.
enum Sums { kLoss, kCorrect, kTerms, kTokens, kFlops, kSignal, kNorm };

// The gradients of a step over all ranks, and its numbers without the norm; nullopt if a signal
// interrupted the step.
std::optional<torch::Tensor> Trainer::accumulate(int64_t step) {
  Profile::mark(profile_.get(), "");
  parameters_.zero_gradients();
  const int64_t share = options_.batch / communicator_.size();
  const int64_t first = step * options_.batch + communicator_.rank() * share;
  const int64_t following = first + options_.batch;  // where this rank's next step begins
  Totals totals;
  for (int64_t done = 0; done < share; done += options_.micro_batch) {
    // Weights change only at the end of a step, so an interrupted step can be repeated. With
    // several ranks the step is finished, since others wait for this rank's gradients.
    if (Interrupt::signal() != 0 && communicator_.alone()) return std::nullopt;
    if (is_first() && events_.micro_batch) events_.micro_batch({step, options_.steps, done, share});
    const Slice slice{first + done, std::min(options_.micro_batch, share - done)};
    const bool last = done + slice.count == share;
    std::optional<Slice> next;
    if (!last)
      next = Slice{slice.first + slice.count,
                   std::min(options_.micro_batch, share - done - slice.count)};
    else if (step + 1 < options_.steps)
      next = Slice{following, std::min(options_.micro_batch, share)};
    if (last) reducer_.arm();
    const Profile::Span span(profile_.get(), "micro-batch", step);
    totals.add(task_.accumulate(slice, next));
    Profile::mark(profile_.get(), "forward, backward");
  }
  const Profile::Span span(communicator_.alone() ? nullptr : profile_.get(), "sum over ranks",
                           step);
  reducer_.finish();
  const auto device = parameters_.values().device();
  const auto known = upload(std::vector<double>{totals.terms, totals.tokens, totals.flops,
                                                Interrupt::signal() != 0 ? 1.0 : 0.0},
                            device);
  auto sums =
      torch::cat({totals.sums.defined() ? totals.sums : torch::zeros({2}, known.options()), known});
  if (communicator_.alone()) return sums;
  communicator_.sum(sums);
  Profile::mark(profile_.get(), "sum over ranks");
  return sums;
}

// Launches the update of the weights. A step whose loss or gradient is not finite changes nothing.
void Trainer::update(const torch::Tensor& sums) {
  const Profile::Span span(profile_.get(), "update", step_);
  const double share = rate_share(options_.schedule, step_, options_.steps);
  const auto norm = optimizer_.step(share, sums[kLoss], sums[kTerms].clamp_min(1));
  launched_ = {step_, share, LateNumbers(torch::cat({sums, norm.unsqueeze(0)}))};
  Profile::mark(profile_.get(), "update");
  ++step_;
}

// Waits for the numbers of the launched step. Returns whether it replaced the gradients.
bool Trainer::finish_step() {
  if (!launched_) return false;
  const auto done = *std::exchange(launched_, std::nullopt);
  const auto sums = [&] {
    const Profile::Span span(profile_.get(), "wait for the numbers", done.step);
    return done.sums.wait();
  }();
  if (profile_) profile_->read_device();
  interrupted_ = interrupted_ || sums[kSignal] > 0;
  const bool finite = std::isfinite(sums[kLoss]) && std::isfinite(sums[kNorm]);
  if (finite) {
    skipped_in_a_row_ = 0;
  } else {
    optimizer_.forget_step();
    count_skipped(done.step, sums[kNorm]);
  }
  report(done, sums);
  return !finite;
}

void Trainer::report(const Launched& done, const std::vector<double>& sums) {
  window_.tokens += sums[kTokens];
  window_.flops += sums[kFlops];
  const double terms = std::max(sums[kTerms], 1.0), seconds = seconds_since(window_.begin);
  const StepReport report{done.step + 1,
                          options_.steps,
                          sums[kLoss] / terms,
                          sums[kCorrect] / terms,
                          sums[kNorm],
                          options_.optimizer.rate * done.share,
                          window_.tokens / seconds,
                          window_.flops / seconds,
                          skipped_};
  if (is_first() && events_.step) events_.step(report);
  if (report.step % options_.log_every != 0 && report.step != options_.steps) return;
  write_metrics({{"step", report.step},
                 {"loss", report.loss},
                 {"accuracy", report.accuracy},
                 {"norm", report.norm},
                 {"rate", report.rate},
                 {"tokens_per_second", report.tokens_per_second},
                 {"flops_per_second", report.flops_per_second},
                 {"skipped", skipped_}});
  window_ = {};
}

// A step whose loss or gradient is not finite leaves the weights as they are.
void Trainer::count_skipped(int64_t step, double norm) {
  ++skipped_;
  ++skipped_in_a_row_;
  if (late_) accumulate(step);  // the buffer has the gradients of the next step
  // Values that are not finite spread towards the input in backward, so the last such weight is
  // nearest to the origin.
  std::string weight;
  const auto& ranges = parameters_.ranges();
  for (auto range = ranges.rbegin(); range != ranges.rend() && weight.empty(); ++range)
    if (!torch::isfinite(parameters_.part(parameters_.gradients(), *range)).all().item<bool>())
      weight = range->name;
  const std::string what =
      std::isfinite(norm) || weight.empty() ? "its loss" : "the gradient of '" + weight + "'";
  say(concat("step ", step, " skipped: ", what, " is not finite (", skipped_in_a_row_,
             " in a row)"));
  if (skipped_in_a_row_ < options_.most_skipped) return;
  const std::string fault = find_fault(step);
  throw Error(concat("training gave up at step ", step, ": ", skipped_in_a_row_,
                     " steps in a row without a finite loss and gradient. In this one ", what,
                     " is not finite; ", fault, " The last checkpoint, of step ",
                     std::max<int64_t>(saved_step_, 0), ", stays. ", task_.advice()));
}

// Finds the micro-batch of a step that is not finite, on any rank, and the place in the model.
std::string Trainer::find_fault(int64_t step) {
  const int64_t share = options_.batch / communicator_.size();
  const int64_t first = step * options_.batch + communicator_.rank() * share;
  Slice faulty;
  for (int64_t done = 0; done < share && faulty.count == 0; done += options_.micro_batch) {
    const Slice slice{first + done, std::min(options_.micro_batch, share - done)};
    parameters_.zero_gradients();
    const Totals totals = task_.accumulate(slice, std::nullopt);
    if (!std::isfinite(totals.loss()) ||
        !torch::isfinite(parameters_.gradients()).all().item<bool>())
      faulty = slice;
  }
  auto found = torch::zeros({communicator_.size()}, torch::kFloat64);
  found[communicator_.rank()] = faulty.count > 0 ? 1.0 : 0.0;
  found = found.to(parameters_.values().device());
  communicator_.sum(found);
  if (faulty.count > 0)
    return concat("on rank ", communicator_.rank(), ", ", task_.find_fault(faulty));
  if (found.sum().item<double>() > 0)
    return concat("rank ", found.argmax().item<int64_t>(), " says where.");
  return "each micro-batch by itself is finite, their sum is not.";
}

void Trainer::write_metrics(nlohmann::ordered_json line) {
  if (!is_first()) return;
  metrics_->add(line);
  if (!tensorboard_) return;
  for (const auto& [key, value] : line.items())
    if (value.is_number() && key != "step")
      tensorboard_->scalar(key, value.get<double>(), line["step"].get<int64_t>(), wall_time());
  tensorboard_->flush();
}

// Evaluates the weights as they are, over all ranks.
nlohmann::ordered_json Trainer::evaluate_weights(bool average) {
  auto part = task_.evaluate(communicator_.rank(), communicator_.size());
  auto sums = torch::tensor(part, torch::kFloat64).to(parameters_.values().device());
  communicator_.sum(sums);
  sums = sums.cpu();
  part.assign(sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel());
  task_.take_sums(part, average);
  return task_.summary(part);
}

// The whole evaluation.
nlohmann::ordered_json Trainer::evaluate(bool tell) {
  auto summary = evaluate_weights(/*average=*/false);
  if (optimizer_.average().defined() && task_.evaluates_average()) {
    optimizer_.swap_average();
    summary["average"] = evaluate_weights(/*average=*/true);
    optimizer_.swap_average();
  }
  if (tell && is_first() && events_.evaluation) events_.evaluation(step_, summary);
  return summary;
}

// Throws unless the run ends with a model worth keeping.
void Trainer::check_learned(const nlohmann::ordered_json& summary) const {
  const std::string metric = not_finite(summary);
  const bool skipped = 2 * skipped_ > step_;
  if (metric.empty() && !skipped) return;
  const std::string fault =
      skipped ? concat(skipped_, " of ", step_,
                       " steps were skipped, because their loss or gradient was not finite")
              : concat("after ", step_, " steps the ", metric, " of the evaluation is not finite");
  std::string good = "No checkpoint has a finite evaluation.";
  if (std::isfinite(best_loss_))
    good = concat("The best checkpoint is ",
                  (folder_ / "checkpoints" / "best.safetensors").string(), ".");
  throw Error(concat("training failed: ", fault, ". No model is written. ", good,
                     " Lower the learning rate."));
}

// Evaluation and checkpoints after step_ steps, where they are due.
void Trainer::evaluate_and_save(bool leaving) {
  const bool end = step_ == options_.steps;
  bool best = false;
  if (end || (step_ % options_.evaluate_every == 0 && !leaving)) {
    const Profile::Span span(profile_.get(), "evaluation", step_);
    const auto summary = evaluate(/*tell=*/true);
    evaluated_ = step_;
    const double criterion = task_.criterion(summary);
    best = criterion < best_loss_;
    if (best) best_loss_ = criterion;
    stale_ = best ? 0 : stale_ + 1;
    nlohmann::ordered_json line{{"step", step_}};
    for (const auto& [key, value] : summary.items()) line["evaluation/" + key] = value;
    write_metrics(line);
    if (is_over()) {  // at the last step, or earlier by patience
      if (is_first()) checkpoints_->wait();
      check_learned(summary);
    }
  }
  const bool due = is_over() || best || leaving || step_ % options_.checkpoint_every == 0;
  if (is_first() && due && (step_ != saved_step_ || best)) {
    const Profile::Span span(profile_.get(), "checkpoint", step_);
    checkpoints_->save(snapshot(), best);
    saved_step_ = step_;
  }
}

// Whether there is more to do after step_ steps than the next one.
bool Trainer::is_due() const {
  return interrupted_ || step_ == options_.steps || step_ % options_.evaluate_every == 0 ||
         step_ % options_.checkpoint_every == 0;
}

bool Trainer::is_over() const {
  return step_ == options_.steps ||
         (options_.patience > 0 && evaluated_ == step_ && stale_ >= options_.patience);
}

nlohmann::ordered_json Trainer::take_best() {
  torch::NoGradGuard no_grad;
  if (is_first()) {
    checkpoints_->wait();
    take_parts(read_checkpoint(checkpoints_->best()).tensors, "weights.", parameters_,
               parameters_.values());
  }
  communicator_.broadcast(parameters_.values());
  parameters_.mark_written();
  return evaluate(/*tell=*/false);
}

Trainer::End Trainer::run() {
  const Interrupt interrupt;
  resume();
  if (is_over())
    check_learned(evaluate(/*tell=*/true));  // the run was complete: only report its quality
  else if (step_ > 0 && step_ % options_.evaluate_every == 0 && evaluated_ != step_)
    evaluate_and_save(/*leaving=*/false);  // a signal came before this was done
  window_ = {};
  while (!is_over()) {
    auto sums = accumulate(step_);
    if (late_ && finish_step() && sums) sums = accumulate(step_);
    if (!sums) {
      interrupted_ = true;
      break;
    }
    update(*sums);
    if (late_ && !is_due()) continue;
    finish_step();
    const auto before = std::chrono::steady_clock::now();
    evaluate_and_save(interrupted_);
    window_.begin += std::chrono::steady_clock::now() - before;  // does not count for the rate
    if (interrupted_) break;
  }
  if (interrupted_ && !is_over()) evaluate_and_save(/*leaving=*/true);
  if (is_first()) checkpoints_->wait();
  if (profile_) profile_->write();
  communicator_.barrier("the end of training");
  return is_over() ? End::kDone : End::kInterrupted;
}

}  // namespace hydramix
