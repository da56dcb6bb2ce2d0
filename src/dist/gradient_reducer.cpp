// SPDX-License-Identifier: Apache-2.0
#include "dist/gradient_reducer.h"

#include <mutex>

#include "hydramix/error.h"

namespace hydramix {

struct GradientReducer::State {
  explicit State(Communicator& c) : communicator(c) {}

  Communicator& communicator;
  std::vector<torch::Tensor> params;
  torch::Tensor flat;            // (n)
  std::vector<int64_t> offsets;  // of the parameters in flat

  struct Bucket {
    int64_t begin, end;  // in flat
    int64_t params = 0;
    int64_t missing = 0;  // gradients not yet accumulated
  };
  std::vector<Bucket> buckets;     // in the order of sending, the end of flat first
  std::vector<int64_t> bucket_of;  // by parameter

  std::mutex mutex;  // backward has one thread per device
  bool armed = false;
  std::vector<bool> accumulated;  // by parameter
  std::size_t sent = 0;           // buckets

  // Autograd holds accumulators weakly. Without these it would make new ones, without our hooks.
  // LibTorch 1.13 has std::shared_ptr here, 2.14 c10::intrusive_ptr.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()));
  std::vector<Accumulator> accumulators;
  std::vector<uintptr_t> hooks;

  void accumulate(std::size_t param);
  void send_next();
  void check_views() const;
};

namespace {

struct AfterAccumulation : torch::autograd::FunctionPostHook {
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

void GradientReducer::State::send_next() {
  const auto& bucket = buckets[sent++];
  communicator.begin_sum(flat.narrow(0, bucket.begin, bucket.end - bucket.begin));
}

void GradientReducer::State::accumulate(std::size_t param) {
  const std::lock_guard lock(mutex);
  // A single rank has nothing to send, and its backward may be captured into a graph, or run twice
  // when the capture fails.
  if (!armed || communicator.alone()) return;
  auto& bucket = buckets[bucket_of[param]];
  if (accumulated[param]) {
    HYDRAMIX_CHECK(static_cast<std::size_t>(bucket_of[param]) >= sent,
                   "gradient reducer: parameter ", param, " of shape ", params[param].sizes(),
                   " got a second gradient after its bucket was sent. Arm the reducer before the "
                   "last backward of a step only, and run no backward inside of it.");
    return;
  }
  accumulated[param] = true;
  --bucket.missing;
  while (sent < buckets.size() && buckets[sent].missing == 0) send_next();
}

void GradientReducer::State::check_views() const {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto& grad = params[i].grad();
    HYDRAMIX_CHECK(
        grad.defined() && grad.is_contiguous() && grad.dtype() == flat.dtype() &&
            static_cast<const char*>(grad.data_ptr()) ==
                static_cast<const char*>(flat.data_ptr()) + offsets[i] * flat.element_size(),
        "gradient reducer: the gradient of parameter ", i, " of shape ", params[i].sizes(),
        " is not the view of the flat gradient from ", offsets[i],
        " on. Set mutable_grad() to flat.narrow(...).view_as(param), and zero the flat "
        "gradient instead of resetting gradients to none.");
  }
}

GradientReducer::GradientReducer(Communicator& communicator, std::vector<torch::Tensor> params,
                                 torch::Tensor flat, int64_t bucket_bytes)
    : state_(std::make_shared<State>(communicator)) {
  auto& s = *state_;
  s.params = std::move(params);
  s.flat = std::move(flat);
  HYDRAMIX_CHECK(s.flat.dim() == 1 && s.flat.is_contiguous(),
                 "gradient reducer: the flat gradient must be (n), contiguous; got ",
                 s.flat.sizes());
  HYDRAMIX_CHECK(bucket_bytes > 0, "gradient reducer: buckets of ", bucket_bytes,
                 " bytes; give a positive size");
  int64_t used = 0;  // of flat, by the parameters so far
  for (std::size_t i = 0; i < s.params.size(); ++i) {
    const auto& grad = s.params[i].grad();
    const int64_t offset =
        grad.defined() ? grad.storage_offset() - s.flat.storage_offset() : int64_t{-1};
    HYDRAMIX_CHECK(offset >= used && offset + grad.numel() <= s.flat.numel(),
                   "gradient reducer: the gradient of parameter ", i, " of shape ",
                   s.params[i].sizes(), " lies at ", offset, " of the flat gradient of ",
                   s.flat.numel(), " numbers; expected it after the one before, at ", used,
                   " or later. Set mutable_grad() to flat.narrow(...).view_as(param).");
    s.offsets.push_back(offset);
    used = offset + grad.numel();
  }
  s.check_views();

  s.bucket_of.resize(s.params.size());
  int64_t end = s.flat.numel();
  for (std::size_t i = s.params.size(); i-- > 0;) {
    if (s.buckets.empty() ||
        (s.buckets.back().end - s.buckets.back().begin) * s.flat.element_size() >= bucket_bytes)
      s.buckets.push_back({end, end});
    auto& bucket = s.buckets.back();
    bucket.begin = end = s.offsets[i];
    ++bucket.params;
    s.bucket_of[i] = static_cast<int64_t>(s.buckets.size()) - 1;
  }
  for (std::size_t i = 0; i < s.params.size(); ++i) {
    s.accumulators.push_back(torch::autograd::impl::grad_accumulator(s.params[i]));
    // The state owns the accumulator, which owns the hook; a weak pointer avoids a cycle.
    s.hooks.push_back(s.accumulators[i]->add_post_hook(
        std::make_unique<AfterAccumulation>([state = std::weak_ptr(state_), i] {
          if (const auto alive = state.lock()) alive->accumulate(i);
        })));
  }
}

GradientReducer::~GradientReducer() {
  for (std::size_t i = 0; i < state_->hooks.size(); ++i)
    state_->accumulators[i]->del_post_hook(state_->hooks[i]);
}

void GradientReducer::arm() {
  const std::lock_guard lock(state_->mutex);
  HYDRAMIX_CHECK(!state_->armed, "gradient reducer: armed twice; call finish() after backward");
  state_->check_views();
  for (auto& bucket : state_->buckets) bucket.missing = bucket.params;
  state_->accumulated.assign(state_->params.size(), false);
  state_->sent = 0;
  state_->armed = true;
}

void GradientReducer::finish() {
  {
    const std::lock_guard lock(state_->mutex);
    HYDRAMIX_CHECK(state_->armed,
                   "gradient reducer: finished without being armed; call arm() "
                   "before the last backward of a step");
    state_->armed = false;
    state_->check_views();
    while (state_->sent < state_->buckets.size()) state_->send_next();
  }
  state_->communicator.finish();
}

}  // namespace hydramix
