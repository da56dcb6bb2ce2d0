// SPDX-License-Identifier: Apache-2.0
#include "ops/complex_scan.h"

#include "kernels/cuda/complex_scan.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/sequence_table.h"

namespace hydramix::on_cuda {

using torch::Tensor;

void complex_scan_forward(const Tensor& x, const Tensor& re, const Tensor& im,
                          const Sequences& sequences, const Tensor& y) {
  if (x.size(0) == 0) return;
  const c10::cuda::CUDAGuard guard(x.device());
  const auto table = table_of(sequences, x.device());
  const cuda::ComplexScanShape shape{x.size(0), x.size(1), table->length()};
  const auto work = scratch(cuda::complex_scan_forward_workspace(shape), x);
  dispatch(x, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ComplexScanForward<S> p{
        shape,         re.data_ptr<double>(), im.data_ptr<double>(), rows_of<const S>(x),
        rows_of<S>(y), work.data_ptr()};
    check(cuda::complex_scan_forward<S>(p, table->bounds(), stream()), "complex scan");
  });
}

std::vector<Tensor> complex_scan_backward(const Tensor& re, const Tensor& im,
                                          const Sequences& sequences, const Tensor& y,
                                          const Tensor& dy) {
  const auto dx = torch::empty({y.size(0), y.size(2)}, y.options());
  const auto dre = torch::empty_like(re), dim = torch::empty_like(im);
  if (y.size(0) == 0) return {dx, dre.zero_(), dim.zero_()};
  const c10::cuda::CUDAGuard guard(y.device());
  const auto table = table_of(sequences, y.device());
  const cuda::ComplexScanShape shape{y.size(0), y.size(2), table->length()};
  const auto work = scratch(cuda::complex_scan_backward_workspace(shape), y);
  dispatch(y, [&](auto tag) {
    using S = decltype(tag);
    const cuda::ComplexScanBackward<S> p{shape,
                                         re.data_ptr<double>(),
                                         im.data_ptr<double>(),
                                         rows_of<const S>(y),
                                         rows_of<const S>(dy),
                                         rows_of<S>(dx),
                                         dre.data_ptr<double>(),
                                         dim.data_ptr<double>(),
                                         work.data_ptr()};
    check(cuda::complex_scan_backward<S>(p, table->bounds(), stream()), "complex scan");
  });
  return {dx, dre, dim};
}

}  // namespace hydramix::on_cuda
