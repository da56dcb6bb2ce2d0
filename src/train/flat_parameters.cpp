// SPDX-License-Identifier: Apache-2.0
#include "train/flat_parameters.h"

#include "hydramix/error.h"
#include "hydramix/weights.h"

namespace hydramix {
namespace {

// Every parameter starts on a cache line; the gaps stay zero.
constexpr int64_t kAlignment = 16;

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& model) {
  std::map<const void*, std::string> names;
  for (const auto& [name, tensor] : named_weights(model))
    names.emplace(tensor.unsafeGetTensorImpl(), name);
  std::map<const void*, std::vector<RoundedCopy>> copies;
  const auto collect = [&](const torch::nn::Module& module) {
    if (const auto* owner = dynamic_cast<const HasRoundedCopies*>(&module))
      for (const auto& [weight, copy] : owner->rounded_copies())
        copies[weight.unsafeGetTensorImpl()].push_back(copy);
  };
  collect(model);
  for (const auto& module : model.modules(/*include_self=*/false)) collect(*module);
  int64_t size = 0;
  for (const auto& parameter : model.parameters()) {
    const void* key = parameter.unsafeGetTensorImpl();
    ranges_.push_back({names.at(key), parameter, size, parameter.numel(), copies[key]});
    size += (parameter.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  HYDRAMIX_CHECK(!ranges_.empty(), "train: the model has no parameters.");
  const auto options = ranges_.front().parameter.options().requires_grad(false);
  for (const auto& range : ranges_)
    HYDRAMIX_CHECK(
        range.parameter.dtype() == options.dtype() && range.parameter.device() == options.device(),
        "train: '", range.name, "' is ", range.parameter.dtype(), " on ", range.parameter.device(),
        ", '", ranges_.front().name, "' is ", options.dtype(), " on ", options.device(),
        ". Move the model to one dtype and device first.");
  HYDRAMIX_CHECK(options.dtype() == torch::kFloat32 || options.dtype() == torch::kFloat64,
                 "train: parameters must be float32 or float64; got ", options.dtype(), ".");
  values_ = torch::zeros({size}, options);
  gradients_ = torch::zeros({size}, options);
  torch::NoGradGuard no_grad;
  for (auto& range : ranges_) {
    auto view = part(values_, range);
    view.copy_(range.parameter);
    range.parameter.set_data(view);
    range.parameter.mutable_grad() = part(gradients_, range);
  }
}

std::vector<torch::Tensor> FlatParameters::parameters() const {
  std::vector<torch::Tensor> all;
  for (const auto& range : ranges_) all.push_back(range.parameter);
  return all;
}

torch::Tensor FlatParameters::part(const torch::Tensor& buffer, const Range& range) const {
  return buffer.narrow(0, range.begin, range.size).view(range.parameter.sizes());
}

void FlatParameters::set_rounded(const torch::Tensor& buffer) const {
  for (const auto& range : ranges_)
    for (const auto& copy : range.copies) copy.set(range.parameter, part(buffer, range));
}

void FlatParameters::mark_written() {
  for (const auto& range : ranges_) range.parameter.unsafeGetTensorImpl()->bump_version();
}

}  // namespace hydramix
