// SPDX-License-Identifier: Apache-2.0
#include "ops/hydra_inner.h"

#include "kernels/cuda/scan.h"
#include "ops/cuda/launch.h"
#include "ops/projection.h"

namespace hydramix::on_cuda {

using torch::Tensor;

bool hydra_inner_fits(const Tensor& w, const HydraShape& s) {
  // Rows and every part of them begin at a multiple of 16 bytes.
  const bool aligned = reinterpret_cast<uintptr_t>(w.data_ptr()) % 16 == 0 && w.stride(1) == 1 &&
                       w.stride(0) % 8 == 0;
  if (!aligned || w.size(1) % 8 != 0) return false;
  cuda::ScanShape shape{};
  shape.H = s.H, shape.P = s.P, shape.G = s.G, shape.N = s.N;
  shape.shift = s.scan.shift;
  shape.on[0] = shape.on[1] = true;
  const c10::cuda::CUDAGuard guard(w.device());
  return cuda::scan_fits(shape, torch::GradMode::is_enabled());
}

// The scan adds the diagonal itself.
HydraDelta hydra_convolve(const ConvCall& call, const HydraWeights& weights,
                          const Tensor& convolved) {
  conv_forward(call, convolved);
  const auto x = convolved.narrow(1, 0, weights.fc_D.size(1));
  return {torch::mm(x, weights.fc_D_copy.of(weights.fc_D).t()), weights.D};
}

HydraDeltaGradients hydra_delta_backward(const Tensor& x, const HydraWeights& weights,
                                         const Tensor& ddelta, const Tensor& ddiagonal,
                                         const Tensor& dx) {
  dx.addmm_(ddelta, weights.fc_D_copy.of(weights.fc_D));
  return {product_in_float(ddelta.t(), x), ddiagonal};
}

}  // namespace hydramix::on_cuda
