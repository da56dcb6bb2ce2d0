// SPDX-License-Identifier: Apache-2.0
#include "python/module_pool.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "hydramix/error.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

namespace autograd = torch::autograd::impl;

void leave_graph(torch::Tensor& weight) {
  if (!weight.requires_grad()) return;
  autograd::set_gradient_edge(weight, {});
  set_grad_accumulator(weight, {});
  weight.set_requires_grad(false);
}

}  // namespace

struct BorrowedModule::Pooled {
  // Recognises a weight of an earlier call that was not written since. The weak pointer keeps its
  // address from being used again.
  class LastWeight {
   public:
    LastWeight() = default;
    explicit LastWeight(const torch::Tensor& weight)
        : tensor_(std::in_place, weight.getIntrusivePtr()),
          data_(weight.data_ptr()),
          version_(weight._version()) {}

    bool is(const torch::Tensor& weight) const {
      return tensor_ && !weight.is_inference() && tensor_->lock() == weight.getIntrusivePtr() &&
             weight.data_ptr() == data_ && weight._version() == version_;
    }
    bool is_gone() const { return tensor_ && tensor_->expired(); }

   private:
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensor_;
    const void* data_ = nullptr;
    int64_t version_ = 0;
  };

  std::unique_ptr<CalledModule> module;
  std::vector<torch::Tensor> weights;        // the module's, sorted by name
  std::vector<torch::Tensor> nothing;        // tensors without memory like the last weights
  std::vector<std::vector<int64_t>> shapes;  // of the weights
  std::vector<LastWeight> last;              // of the last call
  std::vector<std::string> names;

  explicit Pooled(const std::string& spec) : module(make_called_module(spec)) {
    for (const auto& [name, weight] : named_weights(module->module())) {
      names.push_back(name);
      weights.push_back(weight);
      shapes.push_back(weight.sizes().vec());
    }
    last.resize(weights.size());
  }

  void check(at::TensorList given) const {
    HYDRAMIX_CHECK_USAGE(given.size() == weights.size(), "the module has ", weights.size(),
                         " weights; got ", given.size(), ".");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      HYDRAMIX_CHECK_USAGE(given[i].sizes() == shapes[i], "weight '", names[i], "' must be ",
                           at::IntArrayRef(shapes[i]), "; got ", given[i].sizes(), ".");
      HYDRAMIX_CHECK(given[i].device() == given[0].device(), "weight '", names[i], "' is on ",
                     given[i].device(), ", weight '", names[0], "' on ", given[0].device(),
                     ". Move the whole module with .to(device).");
    }
  }

  void bind(at::TensorList given) {
    check(given);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      auto& own = weights[i];
      leave_graph(own);
      own.set_data(given[i].variable_data());
      // Rounded copies and checks of weights rely on the version counter.
      if (!last[i].is(given[i])) own.unsafeGetTensorImpl()->bump_version();
      last[i] = given[i].is_inference() ? LastWeight() : LastWeight(given[i]);
    }
  }

  // Frees the memory of the weights if Python does.
  void unbind() {
    nothing.resize(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      auto& own = weights[i];
      leave_graph(own);
      if (!nothing[i].defined() || !nothing[i].options().type_equal(own.options()) ||
          nothing[i].device() != own.device())
        nothing[i] = torch::empty({0}, own.options());
      own.set_data(nothing[i]);
    }
  }
};

namespace {

class ModulePool {
 public:
  // Never destroyed: tensors of Python may outlive static objects.
  static ModulePool& instance() {
    static auto* pool = new ModulePool;
    return *pool;
  }

  std::unique_ptr<BorrowedModule::Pooled> take(const std::string& spec, at::TensorList weights) {
    const std::lock_guard lock(mutex_);
    auto& free = free_[spec];
    if (free.empty()) return nullptr;
    // Preferably the module of the same weights, whose copies and checks are still valid.
    const auto same = [&](const auto& pooled) {
      return !weights.empty() && !pooled->last.empty() && pooled->last[0].is(weights[0]);
    };
    auto found = std::find_if(free.rbegin(), free.rend(), same);
    if (found == free.rend()) found = free.rbegin();
    auto pooled = std::move(*found);
    free.erase(std::next(found).base());
    return pooled;
  }

  void give_back(const std::string& spec, std::unique_ptr<BorrowedModule::Pooled> pooled) {
    const std::lock_guard lock(mutex_);
    free_[spec].push_back(std::move(pooled));
    // A module on a GPU keeps rounded copies of its last weights.
    for (auto& [name, free] : free_)
      std::erase_if(free, [](const auto& one) {
        return !one->last.empty() && one->weights[0].is_cuda() && one->last[0].is_gone();
      });
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<BorrowedModule::Pooled>>> free_;
};

// A module draws initial weights. Those of the pool are never used, so the user's random numbers
// must not depend on when the pool makes one.
std::unique_ptr<BorrowedModule::Pooled> make_without_random_numbers(const std::string& spec) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto state = [&] {
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }();
  auto made = std::make_unique<BorrowedModule::Pooled>(spec);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
  return made;
}

}  // namespace

BorrowedModule::BorrowedModule(const std::string& spec, at::TensorList weights)
    : spec_(spec), pooled_(ModulePool::instance().take(spec, weights)) {
  const c10::InferenceMode normal_tensors(false);
  const torch::NoGradGuard no_grad;
  if (pooled_ == nullptr) pooled_ = make_without_random_numbers(spec);
  pooled_->bind(weights);
}

BorrowedModule::~BorrowedModule() {
  try {
    const c10::InferenceMode normal_tensors(false);
    const torch::NoGradGuard no_grad;
    pooled_->unbind();
    ModulePool::instance().give_back(spec_, std::move(pooled_));
  } catch (const std::exception&) {
    // Out of memory: the module is not kept.
  }
}

torch::Tensor BorrowedModule::call(const ModuleCall& call) const {
  pooled_->module->module().train(call.seed.defined());
  return pooled_->module->call(call);
}

bool BorrowedModule::can_be_captured(torch::Device device) const {
  return pooled_->module->can_be_captured(device);
}

void BorrowedModule::forget_rounded_weights() {
  for (const auto& own : pooled_->weights) own.unsafeGetTensorImpl()->bump_version();
}

const torch::Tensor& BorrowedModule::differentiate(int64_t i) const {
  return pooled_->weights.at(static_cast<std::size_t>(i)).requires_grad_();
}

// A leaf's gradients go to its accumulator, those of a computed weight into its graph. The module's
// weight stays a leaf where the given one is: of leaves, rounded copies are kept.
void BorrowedModule::join_graph_of(at::TensorList weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].requires_grad()) continue;
    auto& own = pooled_->weights[i];
    if (!weights[i].is_leaf()) {
      autograd::set_gradient_edge(own, autograd::gradient_edge(weights[i]));
      continue;
    }
    own.set_requires_grad(true);
    accumulators_.push_back(autograd::grad_accumulator(weights[i]));
    set_grad_accumulator(own, accumulators_.back());
  }
}

const std::vector<std::string>& BorrowedModule::names() const { return pooled_->names; }

InitialModule initial_module(const std::string& spec) {
  const BorrowedModule::Pooled made(spec);
  InitialModule initial{made.names, {}};
  for (const auto& weight : made.weights) initial.weights.push_back(weight.detach());
  return initial;
}

}  // namespace hydramix
