// SPDX-License-Identifier: Apache-2.0
// The operators that run a module with weights of Python:
//
//   run             the module, differentiable
//   run_forward     the same with a tape, for the gradients of input (0) and weights (1, 2, ...)
//                   listed in `wanted`; with `graphs`, calls that recur are replayed
//   run_backward    these gradients
//   graphs_wanted   whether the code being traced is compiled for CUDA graphs
//
// `run` alone is called outside of torch.compile: its autograd graph becomes a part of Python's.
// Tracers need forward and backward as operators of their own, which cannot exchange a graph but
// only tensors. Shapes of results, for meta and fake tensors, are in python/hydramix/_operators.py.
#include <ATen/SavedTensorHooks.h>
#include <torch/library.h>

#include <optional>

#include "hydramix/error.h"
#include "ops/graph.h"
#include "ops/kernel_tensors.h"
#include "python/captured_call.h"
#include "python/errors.h"
#include "python/joined_call.h"
#include "python/optional.h"
#include "python/recorded_call.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
// types, mask, cu_seqlens, labels, seed
using Extras = c10::List<Optional<Tensor>>;

// Arguments of the operators besides tensors that autograd knows.
struct RunArguments {
  const std::string &spec, &method;
  bool bfloat16;
  const Extras& extras;

  ModuleCall call(const Tensor& input) const {
    HYDRAMIX_CHECK_USAGE(extras.size() == 5, "run: expected 5 extras; got ", extras.size(), ".");
    const auto extra = [&](std::size_t i) {
      const Optional<Tensor> t = extras.get(i);
      return t.has_value() ? *t : Tensor();
    };
    return {method, input, extra(0), extra(1), extra(2), extra(3), extra(4), bfloat16};
  }
};

void check_devices(const Tensor& input, at::TensorList weights) {
  if (weights.empty()) return;
  HYDRAMIX_CHECK(input.device() == weights[0].device(), "the input is on ", input.device(),
                 ", the weights are on ", weights[0].device(),
                 ". Move one of them with .to(device).");
}

// LibTorch's thread state outside of any operator: autograd records, and autocast is off, because
// modules choose their own precision.
class FreshDispatch {
 private:
  c10::impl::ForceDispatchKeyGuard guard_{
      c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet())};
};

// Hooks of the caller's saved tensors, such as those of activation checkpointing, are for the
// tensors of the caller's graph.
class NoSavedTensorHooks {
 public:
  NoSavedTensorHooks() : outer_(at::SavedTensorDefaultHooks::get_tls_state()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~NoSavedTensorHooks() { at::SavedTensorDefaultHooks::set_tls_state(outer_); }
  NoSavedTensorHooks(const NoSavedTensorHooks&) = delete;
  NoSavedTensorHooks& operator=(const NoSavedTensorHooks&) = delete;

 private:
  at::impl::SavedTensorDefaultHooksTLS outer_;
};

Tensor run(const std::string& spec, const std::string& method, bool bfloat16, const Tensor& input,
           const Extras& extras, at::TensorList weights) {
  return with_python_errors([&] {
    check_devices(input, weights);
    release_captured_calls();
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const torch::NoGradGuard no_grad;
    const BorrowedModule module(spec, weights);
    const auto output = module.call(RunArguments{spec, method, bfloat16, extras}.call(input));
    return output.is_alias_of(input) ? output.clone() : output.contiguous();
  });
}

std::tuple<Tensor, Tensor> run_forward(const std::string& spec, const std::string& method,
                                       bool bfloat16, const Tensor& input, const Extras& extras,
                                       at::TensorList weights, at::IntArrayRef wanted,
                                       bool graphs) {
  return with_python_errors([&] {
    check_devices(input, weights);
    const FreshDispatch fresh;
    const auto call = RunArguments{spec, method, bfloat16, extras}.call(input);
    std::optional<NoSavedTensorHooks> no_hooks;  // a replayed call would not have called them
    if (graphs) no_hooks.emplace();
    std::unique_ptr<const Tape> tape;
    if (graphs) tape = replayed_call(spec, call, weights, wanted.vec());
    if (!tape) tape = std::make_unique<RecordedCall>(spec, call, weights, wanted.vec());
    const auto output = tape->output();
    return std::tuple(output.is_alias_of(input) ? output.clone() : output,
                      hold_tape(std::move(tape)));
  });
}

// The input is here for the shape of its fake gradient, and so that compiled code does not write to
// its memory before.
std::vector<Tensor> run_backward(const Tensor& gradient, const Tensor& tape, const Tensor&,
                                 at::TensorList weights, at::IntArrayRef) {
  return with_python_errors([&] {
    const FreshDispatch fresh;
    return held_tape(tape).backward(gradient, weights);
  });
}

// Python answers (_operators.py), because only PyTorch's compiler knows.
bool graphs_wanted() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("hydramix::graphs_wanted", "").typed<bool()>();
  const FreshDispatch unwatched;
  return op.call();
}

class RunFunction : public torch::autograd::Function<RunFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& input, at::TensorList weights,
                        const RunArguments& rest) {
    std::vector<int64_t> wanted;
    if (input.requires_grad()) wanted.push_back(0);
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (weights[i].requires_grad()) wanted.push_back(static_cast<int64_t>(i) + 1);
    const bool graphs = can_capture(input.device()) && graphs_wanted();
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("hydramix::run_forward", "")
                               .typed<decltype(run_forward)>();
    const auto [output, tape] =
        op.call(rest.spec, rest.method, rest.bfloat16, input, rest.extras, weights, wanted, graphs);
    variable_list saved{tape, input};
    saved.insert(saved.end(), weights.begin(), weights.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["wanted"] = wanted;
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const BackwardPass pass("hydramix");
    const auto saved = ctx->get_saved_variables();
    const auto wanted = ctx->saved_data["wanted"].toIntVector();
    const std::vector<Tensor> weights(saved.begin() + 2, saved.end());
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("hydramix::run_backward", "")
                               .typed<decltype(run_backward)>();
    const auto found = op.call(outputs[0], saved[0], saved[1], weights, wanted);
    variable_list gradients(weights.size() + 2);  // input, weights, the other arguments
    for (std::size_t i = 0; i < wanted.size(); ++i) gradients[wanted[i]] = found[i];
    return gradients;
  }
};

// Whether someone looks at the operators instead of results: torch.compile, torch.export, modes and
// subclasses of tensors written in Python, transforms of torch.func, and tensors without data.
bool is_watched(const std::vector<Tensor>& inputs) {
  using c10::DispatchKey;
  const c10::DispatchKeySet watchers{
      DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::FuncTorchDynamicLayerFrontMode,
      DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper};
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(watchers) ||
         std::any_of(inputs.begin(), inputs.end(),
                     [&](const Tensor& t) { return t.is_meta() || t.key_set().has_any(watchers); });
}

Tensor run_with_autograd(const std::string& spec, const std::string& method, bool bfloat16,
                         const Tensor& input, const Extras& extras, at::TensorList weights) {
  std::vector<Tensor> inputs = weights.vec();
  inputs.push_back(input);
  if (wants_gradient(inputs)) {
    const RunArguments arguments{spec, method, bfloat16, extras};
    if (is_watched(inputs)) return RunFunction::apply(input, weights, arguments);
    return with_python_errors([&] {
      check_devices(input, weights);
      release_captured_calls();
      const FreshDispatch fresh;
      return joined_call(spec, arguments.call(input), weights);
    });
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("hydramix::run", "").typed<decltype(run)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(spec, method, bfloat16, input, extras, weights);
}

// The operators keep tensors between calls: rounded weights, and what a tape saved. A CUDA graph of
// torch.compile(mode="reduce-overhead") must not own their memory, so it is cut around them, and
// they replay graphs of their own (captured_call.h). Older PyTorch has no such tag.
template <class Tag>
std::vector<Tag> operator_tags() {
  if constexpr (requires { Tag::cudagraph_unsafe; }) return {Tag::cudagraph_unsafe};
  return {};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(hydramix, m) {
  const auto tags = operator_tags<at::Tag>();
  m.def(
      "run(str spec, str method, bool bfloat16, Tensor input, Tensor?[] extras, Tensor[] weights) "
      "-> Tensor",
      tags);
  m.def(
      "run_forward(str spec, str method, bool bfloat16, Tensor input, Tensor?[] extras, "
      "Tensor[] weights, int[] wanted, bool graphs=False) -> (Tensor, Tensor)",
      tags);
  m.def(
      "run_backward(Tensor gradient, Tensor tape, Tensor input, Tensor[] weights, int[] wanted) "
      "-> Tensor[]",
      tags);
  m.def("graphs_wanted() -> bool");
  m.def("captured_calls() -> int", captured_calls);
}

TORCH_LIBRARY_IMPL(hydramix, CPU, m) {
  m.impl("run", run);
  m.impl("run_forward", run_forward);
  m.impl("run_backward", run_backward);
}

TORCH_LIBRARY_IMPL(hydramix, CUDA, m) {
  m.impl("run", run);
  m.impl("run_forward", run_forward);
  m.impl("run_backward", run_backward);
}

TORCH_LIBRARY_IMPL(hydramix, Autograd, m) {
  m.impl("run", run_with_autograd);
  // They are not differentiable. PyTorch 1.13 has no default for meta tensors.
  m.impl("run_forward", torch::CppFunction::makeFallthrough());
  m.impl("run_backward", torch::CppFunction::makeFallthrough());
}

}  // namespace hydramix
