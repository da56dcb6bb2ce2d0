// SPDX-License-Identifier: Apache-2.0
#include "python/captured_call.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>

#include "hydramix/error.h"
#include "ops/graph.h"
#include "python/recorded_call.h"

namespace hydramix {
namespace {

using torch::Tensor;

std::vector<const void*> memory_of(at::TensorList weights) {
  std::vector<const void*> memory;
  for (const auto& weight : weights) memory.push_back(weight.data_ptr());
  return memory;
}

// A captured call replays calls with an equal key.
struct CallKey {
  std::vector<const void*> weights;  // their memory
  std::vector<int64_t> sizes;        // of the input
  torch::ScalarType type;
  // Results are written again when they have been freed, as LibTorch's allocator does: on the same
  // stream, after the work that reads them.
  c10::Stream stream;
  std::vector<int64_t> wanted;
  std::string spec;

  bool operator==(const CallKey&) const = default;
  torch::Device device() const { return stream.device(); }
};

class CapturedCall {
 public:
  CapturedCall(CallKey key, ModuleCall call, at::TensorList weights)
      : key_(std::move(key)), first_weight_(weights[0].getIntrusivePtr()) {
    const OwnStream stream(key_.device());
    // The memory of tensors that are made in a capture belongs to the graph.
    forward_.emplace([&] {
      call.input = torch::empty(key_.sizes, call.input.options());
      // The same memory with a version counter of its own: the recorded graph has saved the input,
      // and a second backward pass would be refused if its counter had moved.
      input_ = call.input.variable_data();
      recorded_.emplace(key_.spec, call, weights, key_.wanted, RecordedCall::Rounding::kAlways);
      output_ = recorded_->output();
    });
    backward_.emplace([&] {
      gradient_ = torch::empty_like(output_);
      gradients_ = recorded_->backward(gradient_, weights);
    });
    for (std::size_t i = 0; i < key_.wanted.size(); ++i)
      if (key_.wanted[i] == 0) input_gradient_ = i;
    own_uses_ = uses();
  }

  const CallKey& key() const { return key_; }
  bool was_replayed_again() const { return replays_ > 1; }
  // Whether the first weight was freed, or is at another place now.
  bool weights_are_gone() const {
    const auto first = first_weight_.lock();
    return !first || !first->has_storage() || first->data() != key_.weights[0];
  }

  // Whether the results of the last replay have been freed.
  bool is_free() const { return !lent_ && uses() == own_uses_; }
  // `call`, which is not free until the result is destroyed.
  static std::shared_ptr<CapturedCall> lent(const std::shared_ptr<CapturedCall>& call) {
    call->lent_ = true;
    return {call.get(), [call](CapturedCall*) { call->lent_ = false; }};
  }

  // The result is overwritten by the next replay.
  Tensor forward(const Tensor& input) {
    const c10::DeviceGuard guard(key_.device());
    input_.copy_(input);
    forward_->replay();
    ++replays_;
    has_passed_back_ = false;
    return output_.detach();
  }

  std::vector<Tensor> backward(const Tensor& gradient, at::TensorList weights) {
    HYDRAMIX_CHECK(gradient.sizes() == output_.sizes(), "run_backward: the gradient must be ",
                   output_.sizes(), " as the output; got ", gradient.sizes(), ".");
    // A second pass must not overwrite the gradient of the input that the first one has returned,
    // and the graph reads the weights where they were.
    if (std::exchange(has_passed_back_, true) || memory_of(weights) != key_.weights)
      return recorded_->backward(gradient, weights);
    const c10::DeviceGuard guard(key_.device());
    gradient_.copy_(gradient);
    backward_->replay();
    // Gradients of weights are copied, because they are often kept until the next step and longer.
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      results.push_back(i == input_gradient_ ? gradients_[i].detach() : gradients_[i].clone());
    return results;
  }

 private:
  std::size_t uses() const {
    const auto of = [](const Tensor& t) { return t.storage().use_count(); };
    return of(output_) + (input_gradient_ ? of(gradients_[*input_gradient_]) : 0);
  }

  CallKey key_;
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> first_weight_;
  std::optional<RecordedCall> recorded_;
  std::optional<Graph> forward_, backward_;
  Tensor input_, output_, gradient_;
  std::vector<Tensor> gradients_;
  std::optional<std::size_t> input_gradient_;  // its place in gradients_
  std::size_t own_uses_ = 0;                   // uses() while no caller has results
  std::atomic<bool> lent_{false};
  std::atomic<int64_t> replays_{0};
  bool has_passed_back_ = false;
};

class ReplayedCall : public Tape {
 public:
  ReplayedCall(std::shared_ptr<CapturedCall> call, const Tensor& input)
      : call_(std::move(call)), output_(call_->forward(input)) {}

  Tensor output() const override { return output_; }
  std::vector<Tensor> backward(const Tensor& gradient, at::TensorList weights) const override {
    return call_->backward(gradient, weights);
  }

 private:
  std::shared_ptr<CapturedCall> call_;
  Tensor output_;
};

class CapturedCalls {
 public:
  // Never destroyed: tensors of Python may outlive static objects.
  static CapturedCalls& instance() {
    static auto* calls = new CapturedCalls;
    return *calls;
  }

  // Null for a call that must be recorded.
  std::shared_ptr<CapturedCall> take(const CallKey& key, const ModuleCall& call,
                                     at::TensorList weights) {
    // A capture waits for the thread of backward passes. That thread may be here too, with a call
    // of a checkpoint, and must not wait for the capture.
    const std::unique_lock alone(changing_, std::try_to_lock);
    if (alone) drop_useless();
    if (auto found = find(key)) return found;
    if (!alone || !recurs(key) || !make_room(key)) return nullptr;
    try {
      {
        // Everything that is made at a first call exists before the capture.
        const OwnStream stream(key.device());
        if (!BorrowedModule(key.spec, weights).can_be_captured(key.device())) {
          refuse(key.spec);
          return nullptr;
        }
        const RecordedCall direct(key.spec, call, weights, key.wanted);
        direct.backward(torch::zeros_like(direct.output()), weights);
      }
      const auto captured = std::make_shared<CapturedCall>(key, call, weights);
      const std::lock_guard lock(mutex_);
      calls_.push_back(captured);
      count_ = calls_.size();
      return CapturedCall::lent(captured);
    } catch (const UsageError&) {  // the recorded call throws it again
      return nullptr;
    } catch (const std::exception& error) {
      // Usually out of memory. The results are the same without captures.
      const std::string reason = error.what();
      TORCH_WARN("hydramix: a call could not be captured, and no call like it will be: ",
                 reason.substr(0, reason.find('\n')));
      refuse(key.spec);
      drop_useless();
      return nullptr;
    }
  }

  void release() {
    if (count_ == 0) return;
    const std::unique_lock alone(changing_, std::try_to_lock);
    if (alone) drop_useless();
  }

  int64_t count() {
    release();
    return static_cast<int64_t>(count_.load());
  }

 private:
  static constexpr int kMostOfOneModule = 4;
  // Captures that were never replayed again. So many mean that weights are computed for each call
  // and are at another place every time.
  static constexpr int kMostInVain = 200;

  // Drops free calls. With changing_ held, but not mutex_.
  template <class Which>
  void drop(const Which& which) {
    std::vector<std::shared_ptr<CapturedCall>> dropped;  // freed when others may go on
    const std::lock_guard lock(mutex_);
    for (auto& call : calls_)
      if (call->is_free() && which(*call)) dropped.push_back(std::move(call));
    std::erase(calls_, nullptr);
    count_ = calls_.size();
    for (const auto& call : dropped)
      if (!call->was_replayed_again() && ++in_vain_[call->key().spec] == kMostInVain)
        refused_.insert(call->key().spec);
  }

  void drop_useless() {
    drop([&](const CapturedCall& call) {
      return call.weights_are_gone() || refused_.count(call.key().spec) != 0;
    });
  }

  std::shared_ptr<CapturedCall> find(const CallKey& key) {
    const std::lock_guard lock(mutex_);
    if (refused_.count(key.spec) != 0) return nullptr;
    // The last used is last. One that is used again and again gives results at one place.
    const auto found = std::find_if(calls_.rbegin(), calls_.rend(), [&](const auto& call) {
      return call->key() == key && call->is_free();
    });
    if (found == calls_.rend()) return nullptr;
    std::rotate(calls_.rbegin(), found, found + 1);
    return CapturedCall::lent(calls_.back());
  }

  // Whether the previous call with these weights had the same key.
  bool recurs(const CallKey& key) {
    const std::lock_guard lock(mutex_);
    if (refused_.count(key.spec) != 0) return false;
    const auto last = last_keys_.find(key.weights[0]);
    if (last != last_keys_.end() && last->second == key) return true;
    if (last_keys_.size() > 10 * calls_.size() + 1000) last_keys_.clear();  // of freed modules
    last_keys_.insert_or_assign(key.weights[0], key);
    return false;
  }

  // Drops the call of this module that was not used for longest, if there are too many.
  bool make_room(const CallKey& key) {
    const auto its = [&](const auto& call) { return call.key().weights[0] == key.weights[0]; };
    const auto count = [&] {
      const std::lock_guard lock(mutex_);
      return std::count_if(calls_.begin(), calls_.end(), [&](const auto& c) { return its(*c); });
    };
    auto left = count();
    drop([&](const CapturedCall& call) { return its(call) && left-- >= kMostOfOneModule; });
    return count() < kMostOfOneModule;
  }

  void refuse(const std::string& spec) {
    const std::lock_guard lock(mutex_);
    refused_.insert(spec);
  }

  std::mutex changing_;  // held by the one that captures or drops
  std::mutex mutex_;     // of what follows
  std::vector<std::shared_ptr<CapturedCall>> calls_;
  std::unordered_map<const void*, CallKey> last_keys_;  // by the first weight
  std::unordered_map<std::string, int> in_vain_;        // by the spec
  std::set<std::string> refused_;                       // specs
  std::atomic<std::size_t> count_{0};
};

}  // namespace

std::unique_ptr<const Tape> replayed_call(const std::string& spec, const ModuleCall& call,
                                          at::TensorList weights,
                                          const std::vector<int64_t>& wanted) {
  const bool is_plain = call.method == "forward" && !call.types.defined() && !call.mask.defined() &&
                        !call.cu_seqlens.defined() && !call.labels.defined() &&
                        !call.seed.defined();
  const auto device = call.input.device();
  // In anomaly mode LibTorch reads every gradient on the host.
  if (!is_plain || weights.empty() || wanted.empty() || !can_capture(device) ||
      torch::autograd::AnomalyMode::is_enabled())
    return nullptr;
  CallKey key{.weights = memory_of(weights),
              .sizes = call.input.sizes().vec(),
              .type = call.input.scalar_type(),
              .stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device),
              .wanted = wanted,
              .spec = spec};
  auto captured = CapturedCalls::instance().take(key, call, weights);
  if (!captured) return nullptr;
  return std::make_unique<ReplayedCall>(std::move(captured), call.input);
}

void release_captured_calls() { CapturedCalls::instance().release(); }

int64_t captured_calls() { return CapturedCalls::instance().count(); }

}  // namespace hydramix
