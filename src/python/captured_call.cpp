// SPDX-License-Identifier: Apache-2.0
#include "python/captured_call.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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

// A captured call replays calls with an equal key.
struct CallKey {
  std::vector<const void*> weights;  // their memory
  std::vector<int64_t> sizes;        // of the input
  torch::ScalarType type;
  torch::Device device;
  std::vector<int64_t> wanted;
  std::string spec;

  bool operator==(const CallKey&) const = default;
};

class CapturedCall {
 public:
  CapturedCall(CallKey key, ModuleCall call, at::TensorList weights)
      : key_(std::move(key)), first_weight_(weights[0].getIntrusivePtr()) {
    const OwnStream stream(key_.device);
    // The memory of tensors that are made in a capture belongs to the graph.
    forward_.emplace([&] {
      call.input = torch::empty(key_.sizes, call.input.options());
      // Writes to it do not count as writes to the input, which the recorded graph has saved.
      input_ = call.input.variable_data();
      recorded_.emplace(key_.spec, call, weights, key_.wanted, RecordedCall::Rounding::kAlways);
      output_ = recorded_->output();
    });
    backward_.emplace([&] {
      gradient_ = torch::empty_like(output_);
      gradients_ = recorded_->backward(gradient_);
    });
    for (std::size_t i = 0; i < key_.wanted.size(); ++i)
      if (key_.wanted[i] == 0) input_gradient_ = i;
    own_uses_ = uses();
  }

  const CallKey& key() const { return key_; }
  bool is_of(const void* first_weight) const { return key_.weights[0] == first_weight; }
  bool weights_are_gone() const { return first_weight_.expired(); }

  // Whether the results of the last replay have been freed.
  bool is_free() const { return !lent_ && uses() == own_uses_; }
  // `call`, which is not free until the result is destroyed.
  static std::shared_ptr<CapturedCall> lend(const std::shared_ptr<CapturedCall>& call) {
    call->lent_ = true;
    return {call.get(), [call](CapturedCall*) { call->lent_ = false; }};
  }

  // The result is overwritten by the next replay.
  Tensor forward(const Tensor& input) {
    const c10::DeviceGuard guard(key_.device);
    if (last_use_.was_marked_for_recording()) last_use_.block(current_stream());
    input_.copy_(input);
    forward_->replay();
    last_use_.record(current_stream());
    has_passed_back_ = false;
    return output_.detach();
  }

  std::vector<Tensor> backward(const Tensor& gradient) {
    HYDRAMIX_CHECK(gradient.sizes() == output_.sizes(), "run_backward: the gradient must be ",
                   output_.sizes(), " as the output; got ", gradient.sizes(), ".");
    // A second pass must not overwrite the gradient of the input that the first one has returned.
    if (std::exchange(has_passed_back_, true)) return recorded_->backward(gradient);
    const c10::DeviceGuard guard(key_.device);
    gradient_.copy_(gradient);
    backward_->replay();
    // Gradients of weights are copied, because they are often kept until the next step and longer.
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      results.push_back(i == input_gradient_ ? gradients_[i].detach() : gradients_[i].clone());
    last_use_.record(current_stream());
    return results;
  }

 private:
  c10::Stream current_stream() const {
    return c10::impl::VirtualGuardImpl(key_.device.type()).getStream(key_.device);
  }
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
  std::size_t own_uses_ = 0;
  std::atomic<bool> lent_{false};
  bool has_passed_back_ = false;
  c10::Event last_use_{c10::DeviceType::CUDA};
};

class ReplayedCall : public Tape {
 public:
  ReplayedCall(std::shared_ptr<CapturedCall> call, const Tensor& input)
      : call_(std::move(call)), output_(call_->forward(input)) {}

  Tensor output() const override { return output_; }
  std::vector<Tensor> backward(const Tensor& gradient) const override {
    return call_->backward(gradient);
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

  std::shared_ptr<CapturedCall> lend(const CallKey& key, const ModuleCall& call,
                                     at::TensorList weights) {
    if (auto found = find(key)) return found;
    if (!shall_capture(key)) return nullptr;
    {
      // Everything that is made at a first call exists before the capture. Errors are those of the
      // call.
      const OwnStream stream(key.device);
      if (!BorrowedModule(key.spec, weights).can_be_captured(call)) return refuse(key.spec);
      const RecordedCall direct(key.spec, call, weights, key.wanted);
      direct.backward(torch::zeros_like(direct.output()));
    }
    try {
      const auto captured = std::make_shared<CapturedCall>(key, call, weights);
      const std::lock_guard lock(mutex_);
      calls_.push_back(captured);
      if (++in_vain_[key.spec] == kMostInVain) refused_.insert(key.spec);
      return CapturedCall::lend(captured);
    } catch (const std::exception& error) {
      // Usually out of memory. The results are the same without captures.
      const std::string reason = error.what();
      TORCH_WARN("hydramix: a call could not be captured, and no call like it will be: ",
                 reason.substr(0, reason.find('\n')));
      forget(key.spec);
      return refuse(key.spec);
    }
  }

  int64_t count() {
    const std::lock_guard lock(mutex_);
    forget_gone();
    return static_cast<int64_t>(calls_.size());
  }

 private:
  static constexpr int kMostOfOneModule = 4;
  // After as many captures of which none was replayed again, weights must be computed for each
  // call, and be at another place every time: no model has so many layers.
  static constexpr int kMostInVain = 200;

  std::shared_ptr<CapturedCall> find(const CallKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(calls_.begin(), calls_.end(), [&](const auto& captured) {
      return captured->key() == key && captured->is_free();
    });
    if (found == calls_.end()) return nullptr;
    in_vain_.erase(key.spec);
    std::rotate(found, found + 1, calls_.end());  // the last used is last
    return CapturedCall::lend(calls_.back());
  }

  // Makes room for one more if so.
  bool shall_capture(const CallKey& key) {
    const std::lock_guard lock(mutex_);
    forget_gone();
    if (refused_.count(key.spec) != 0) return false;
    const void* module = key.weights[0];
    const auto last = last_keys_.find(module);
    if (last == last_keys_.end() || last->second != key) {
      if (last_keys_.size() > 10 * calls_.size() + 1000) last_keys_.clear();  // of freed modules
      last_keys_.insert_or_assign(module, key);
      return false;
    }
    const auto its = [&](const auto& captured) { return captured->is_of(module); };
    if (std::count_if(calls_.begin(), calls_.end(), its) < kMostOfOneModule) return true;
    const auto oldest = std::find_if(calls_.begin(), calls_.end(), [&](const auto& captured) {
      return its(captured) && captured->is_free();
    });
    if (oldest == calls_.end()) return false;
    calls_.erase(oldest);
    return true;
  }

  void forget_gone() {
    std::erase_if(calls_, [](const auto& captured) {
      return captured->weights_are_gone() && captured->is_free();
    });
  }

  void forget(const std::string& spec) {
    const std::lock_guard lock(mutex_);
    std::erase_if(calls_, [&](const auto& captured) {
      return captured->key().spec == spec && captured->is_free();
    });
  }

  std::shared_ptr<CapturedCall> refuse(const std::string& spec) {
    const std::lock_guard lock(mutex_);
    refused_.insert(spec);
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<CapturedCall>> calls_;
  std::unordered_map<const void*, CallKey> last_keys_;  // by the first weight
  std::unordered_map<std::string, int> in_vain_;        // by the spec
  std::set<std::string> refused_;                       // specs
};

}  // namespace

std::unique_ptr<const Tape> replayed_call(const std::string& spec, const ModuleCall& call,
                                          at::TensorList weights,
                                          const std::vector<int64_t>& wanted) {
  if (weights.empty() || wanted.empty()) return nullptr;
  CallKey key{.weights = {},
              .sizes = call.input.sizes().vec(),
              .type = call.input.scalar_type(),
              .device = call.input.device(),
              .wanted = wanted,
              .spec = spec};
  for (const auto& weight : weights) key.weights.push_back(weight.data_ptr());
  auto captured = CapturedCalls::instance().lend(key, call, weights);
  if (!captured) return nullptr;
  return std::make_unique<ReplayedCall>(std::move(captured), call.input);
}

int64_t captured_calls() { return CapturedCalls::instance().count(); }

}  // namespace hydramix
