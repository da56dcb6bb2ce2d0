// SPDX-License-Identifier: Apache-2.0
#include "mixers/hyena_filter.h"

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "ops/arithmetic.h"

namespace hydramix {
namespace {

// tau_l for l = begin .. begin + count - 1: (count, 1).
torch::Tensor filter_times(int64_t begin, int64_t count, int64_t max_length,
                           const torch::TensorOptions& options) {
  const auto l = torch::arange(begin, begin + count, options);
  return (l / static_cast<double>(std::max<int64_t>(max_length - 1, 1))).unsqueeze(1);
}

// The values that e_l starts with, for l = begin .. begin + count - 1: (count, width).
torch::Tensor filter_features_of(int64_t begin, int64_t count, int64_t width, int64_t max_length,
                                 const torch::TensorOptions& options) {
  const int64_t bands = (width - 1) / 2;
  const auto angle = torch::arange(begin, begin + count, options).unsqueeze(1) *
                     (2 * M_PI / static_cast<double>(max_length));
  const auto f = torch::linspace(1e-4, static_cast<double>(bands - 1), bands, options);
  return torch::cat({filter_times(begin, count, max_length, options), torch::cos(angle * f),
                     -torch::sin(angle * f)},
                    1);
}

}  // namespace

HyenaFilter::HyenaFilter(int64_t kernels, int64_t directions, const MixerOptions& options)
    : kernels_(kernels), max_length_(options.max_length) {
  HYDRAMIX_CHECK_USAGE(options.filter_features % 2 == 1,
                       "mixer: filter_features = ", options.filter_features,
                       " is even, but the features are a time and pairs of a cosine and a sine. "
                       "Choose an odd number.");
  position_embeddings = register_parameter(
      "position_embeddings",
      filter_features_of(0, max_length_, options.filter_features, max_length_, torch::kFloat64)
          .to(torch::kFloat32));
  frequency = register_parameter(
      "frequency", torch::full({options.filter_width}, options.filter_frequency, torch::kFloat32));
  for (int64_t d = 0; d < directions; ++d)
    networks_.push_back(register_module(
        d == 0 ? "forward_network" : "reverse_network",
        std::make_shared<PositionNetwork>(PositionNetworkShape{.inputs = options.filter_features,
                                                               .width = options.filter_width,
                                                               .layers = options.filter_layers,
                                                               .outputs = kernels,
                                                               .output_bias = false})));
}

torch::Tensor HyenaFilter::features(const std::string& who, const Rows& rows) const {
  const auto learned = widened(who, position_embeddings, rows.options);
  if (rows.L <= max_length_) return learned.narrow(0, 0, rows.L);
  return torch::cat({learned, filter_features_of(max_length_, rows.L - max_length_, learned.size(1),
                                                 max_length_, rows.options)});
}

torch::Tensor HyenaFilter::kernels(const std::string& who, const Rows& rows) const {
  const auto e = features(who, rows);
  const auto w = widened(who, frequency, rows.options);
  const auto sine = [&](const torch::Tensor& v) { return torch::sin(w * v); };
  const auto rates =
      torch::linspace(std::log(100) / 1.5, std::log(100) / 0.3, kernels_, rows.options);
  const auto window = torch::exp(-filter_times(0, rows.L, max_length_, rows.options) * rates);
  std::vector<torch::Tensor> directions;
  for (const auto& network : networks_)
    directions.push_back((network->forward(who, e, sine) * window).t());
  return torch::stack(directions);
}

}  // namespace hydramix
