// SPDX-License-Identifier: Apache-2.0
#include "ops/arithmetic.h"

#include "hydramix/error.h"
#include "ops/backend.h"

namespace hydramix {

torch::ScalarType arithmetic_type(const std::string& who, const std::string& name,
                                  const torch::Tensor& t) {
  const auto type = t.scalar_type();
  HYDRAMIX_CHECK(type == torch::kFloat32 || type == torch::kFloat64 || type == torch::kBFloat16,
                 who, ": ", name, " must be float32, float64 or bfloat16; got ", t.dtype(),
                 ". Convert it with .to(...).");
  return type == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

torch::ScalarType kernel_input_type(const std::string& who, const std::string& name,
                                    const torch::Tensor& t) {
  const auto arithmetic = arithmetic_type(who, name, t);
  return backend_of(t) == Backend::kCuda ? t.scalar_type() : arithmetic;
}

torch::Tensor widened(const std::string& who, const torch::Tensor& weight,
                      const torch::TensorOptions& to) {
  if (!weight.defined()) return weight;
  const auto type = to.dtype().toScalarType();
  HYDRAMIX_CHECK(weight.scalar_type() != torch::kFloat64 || type == torch::kFloat64, who,
                 ": the weights are float64 but the input is not; rounding them would be silent. "
                 "Give float64 input or convert the module with ->to(torch::kFloat32).");
  HYDRAMIX_CHECK(weight.device() == to.device(), who, ": the weights are on ", weight.device(),
                 " but the input is on ", to.device(), ". Move one with .to(device).");
  return weight.to(type);
}

}  // namespace hydramix
