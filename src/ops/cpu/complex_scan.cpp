// SPDX-License-Identifier: Apache-2.0
#include "ops/complex_scan.h"

#include "kernels/cpu/complex_scan.h"
#include "ops/cpu/rows.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using torch::Tensor;

// Calls f(range, task) for every sequence and task, in parallel.
template <class F>
void for_complex_tasks(const Sequences& sequences, int64_t C, F&& f) {
  const int64_t tasks = kernels::complex_tasks(C);
  const auto& offsets = sequences.offsets();
  parallel(sequences.count() * tasks, [&](int64_t i) {
    const auto s = static_cast<std::size_t>(i / tasks);
    f(kernels::ComplexScanRange{i / tasks, offsets[s], offsets[s + 1]}, i % tasks);
  });
}

template <typename S>
void run_complex_forward(const Tensor& x, const Tensor& re, const Tensor& im,
                         const Sequences& sequences, const Tensor& y) {
  const kernels::ComplexScanForward<S> p{{x.size(0), x.size(1)},
                                         re.data_ptr<double>(),
                                         im.data_ptr<double>(),
                                         rows_of<const S>(x),
                                         rows_of<S>(y)};
  for_complex_tasks(sequences, p.shape.C, [&](const auto& range, int64_t task) {
    kernels::complex_scan_forward<S>(p, range, task);
  });
}

template <typename S>
void run_complex_backward(const kernels::ComplexScanBackward<S>& p, const Sequences& sequences) {
  for_complex_tasks(sequences, p.shape.C, [&](const auto& range, int64_t task) {
    kernels::complex_scan_backward<S>(p, range, task);
  });
}

}  // namespace

void complex_scan_forward(const Tensor& x, const Tensor& re, const Tensor& im,
                          const Sequences& sequences, const Tensor& y) {
  if (x.scalar_type() == torch::kFloat64)
    run_complex_forward<double>(x, re, im, sequences, y);
  else
    run_complex_forward<float>(x, re, im, sequences, y);
}

std::vector<Tensor> complex_scan_backward(const Tensor& re, const Tensor& im,
                                          const Sequences& sequences, const Tensor& y,
                                          const Tensor& dy) {
  const int64_t C = y.size(2);
  const auto dx = torch::empty({y.size(0), C}, y.options());
  const auto dre = torch::zeros({sequences.count(), C}, re.options()), dim = torch::zeros_like(dre);
  const auto run = [&](auto tag) {
    using S = decltype(tag);
    run_complex_backward<S>({{y.size(0), C},
                             re.data_ptr<double>(),
                             im.data_ptr<double>(),
                             rows_of<const S>(y),
                             rows_of<const S>(dy),
                             rows_of<S>(dx),
                             dre.data_ptr<double>(),
                             dim.data_ptr<double>()},
                            sequences);
  };
  if (y.scalar_type() == torch::kFloat64)
    run(double{});
  else
    run(float{});
  return {dx, ordered_sum(dre), ordered_sum(dim)};
}

}  // namespace hydramix::on_cpu
