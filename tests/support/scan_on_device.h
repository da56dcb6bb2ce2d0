// SPDX-License-Identifier: Apache-2.0
// Runs a scan kernel, forward and backward, on the values of a ScanProblem.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/scan.h"
#include "kernels/cuda/token_tiles.h"
#include "support/cuda.h"
#include "support/scan_reference.h"

namespace hydramix::cuda {

struct ScanOutcome {
  ScanResults results;
  std::vector<uint8_t> bits;  // of all outputs
};

inline ScanShape shape_of(const ScanProblem& p) {
  return {p.H, p.P, p.G, p.N, p.shift, {p.on[0], p.on[1]}, p.dt_low, p.dt_high};
}

// Tiles on the device, as the problem asks for them.
class DeviceTiles {
 public:
  explicit DeviceTiles(const ScanProblem& p)
      : tiles_(p.offsets()), bounds_(tiles_.bounds), begins_(with_empty(tiles_, p.empty_tiles)) {
    layout_ = {bounds_.data(), begins_.data(), p.n(), tiles_.tiles() + p.empty_tiles};
    layout_.states = tiles_.states || p.empty_tiles > 0;
    layout_.segment =
        p.segment > 0 ? p.segment : tiles_.segment(2 * p.H * p.P / (p.P % 64 == 0 ? 64 : 32));
    layout_.carries = tiles_.carries(layout_.segment) || p.empty_tiles > 0;
  }
  const ScanLayout& layout() const { return layout_; }

 private:
  static std::vector<int> with_empty(const TokenTiles& tiles, int empty) {
    auto begins = tiles.begins;
    begins.resize(begins.size() + static_cast<std::size_t>(empty), tiles.begins.back());
    return begins;
  }

  TokenTiles tiles_;
  DeviceBuffer<int2> bounds_;
  DeviceBuffer<int> begins_;
  ScanLayout layout_;
};

// x, b and c are columns of one wide matrix, and so are their gradients: `before` unused columns,
// then those, and the rest of `row` is unused too.
struct WideRows {
  int64_t before, row;
};

// Kernels has static members saved_bytes, forward_bytes, backward_bytes, forward and backward,
// which are the launchers. S is the type of what is stored per token, T that of dt and delta.
template <class Kernels, typename S, typename T>
ScanOutcome scan_on_device(const ScanProblem& p, const ScanValues& v, WideRows rows) {
  const int64_t n = p.n(), wide = rows.row;
  const int H = p.H, P = p.P, GN = p.G * p.N;
  std::vector<double> packed(n * wide);
  const auto place = [&](const std::vector<double>& from, int64_t width, int64_t column) {
    for (int64_t t = 0; t < n; ++t)
      std::copy_n(from.begin() + t * width, width, packed.begin() + t * wide + column);
  };
  const int64_t x_at = rows.before, first = x_at + H * P, used = first + 4 * GN;
  const int64_t b_at[2] = {first, first + 2 * GN}, c_at[2] = {first + GN, first + 3 * GN};
  place(v.x, H * P, x_at);
  for (const int d : {0, 1}) {
    place(v.b[d], GN, b_at[d]);
    place(v.c[d], GN, c_at[d]);
  }
  const DeviceBuffer<S> input(stored<S>(packed)), dinput(n * wide), y(n * H * P),
      dy(stored<S>(v.dy));
  const DeviceBuffer<T> delta(stored<T>(v.delta)), ddelta(n * H);
  const DeviceBuffer<T> dt0(stored<T>(v.dt[0])), dt1(stored<T>(v.dt[1])), ddt0(n * H), ddt1(n * H);
  const DeviceBuffer<float> dt_bias(stored<float>(v.dt_bias)), A(stored<float>(v.A)),
      diagonal(stored<float>(v.diagonal)), ddt_bias(H), dA(H), ddiagonal(H);

  const DeviceTiles tiles(p);
  const ScanLayout& layout = tiles.layout();
  const ScanShape shape = shape_of(p);
  ScanInputs<S> in;
  ScanGradients<S> out;
  in.x = {input.data() + x_at, wide};
  out.x = {dinput.data() + x_at, wide};
  for (const int d : {0, 1}) {
    in.direction[d] = {{d == 0 ? dt0.data() : dt1.data(), H},
                       {input.data() + b_at[d], wide},
                       {input.data() + c_at[d], wide}};
    out.direction[d] = {{d == 0 ? ddt0.data() : ddt1.data(), H},
                        {dinput.data() + b_at[d], wide},
                        {dinput.data() + c_at[d], wide}};
  }
  in.dt_bias = dt_bias.data();
  in.A = A.data();
  in.diagonal = diagonal.data();
  in.delta = {delta.data(), H};
  in.dt_is_float = in.delta_is_float = sizeof(T) == 4;
  out.dt_bias = ddt_bias.data();
  out.A = dA.data();
  out.diagonal = ddiagonal.data();
  out.delta = {ddelta.data(), H};
  const auto bytes = [](std::size_t size) { return static_cast<int64_t>(size); };
  const DeviceBuffer<uint8_t> saved(bytes(Kernels::saved_bytes(shape, layout))),
      scratch(bytes(Kernels::forward_bytes(shape, layout))),
      back(bytes(Kernels::backward_bytes(shape, layout)));
  EXPECT_EQ(cudaSuccess, Kernels::forward(ScanForward<S>{shape, in, {y.data(), H * P}}, layout,
                                          ScanMemory{saved.data(), scratch.data()}));
  EXPECT_EQ(cudaSuccess, Kernels::backward(ScanBackward<S>{shape, in, {dy.data(), H * P}, out},
                                           layout, ScanMemory{saved.data(), back.data()}));
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());

  ScanOutcome run;
  const auto keep = [&](const auto& values) {
    const auto* raw = reinterpret_cast<const uint8_t*>(values.data());
    run.bits.insert(run.bits.end(), raw, raw + values.size() * sizeof(values[0]));
    return widened(values);
  };
  ScanResults& r = run.results;
  r.y = keep(y.host());
  const auto all = keep(dinput.host());
  const auto columns = [&](int64_t column, int64_t width) {
    std::vector<double> part;
    for (int64_t t = 0; t < n; ++t)
      part.insert(part.end(), all.begin() + t * wide + column,
                  all.begin() + t * wide + column + width);
    return part;
  };
  r.dx = columns(x_at, H * P);
  for (const int d : {0, 1}) {
    if (!p.on[d]) continue;
    r.db[d] = columns(b_at[d], GN);
    r.dc[d] = columns(c_at[d], GN);
    r.ddt[d] = keep(d == 0 ? ddt0.host() : ddt1.host());
  }
  for (const auto& beside : {columns(0, x_at), columns(used, wide - used)})
    for (const double value : beside)
      EXPECT_TRUE(std::isnan(value)) << "written beside the gradient";
  r.ddt_bias = keep(ddt_bias.host());
  r.dA = keep(dA.host());
  r.ddiagonal = keep(ddiagonal.host());
  r.ddelta = keep(ddelta.host());
  return run;
}

// y of both directions (shift 1) by the recurrence, for one head of one long sequence.
inline std::vector<double> recurrence_of_one_head(const ScanProblem& p, const ScanValues& v) {
  const int64_t n = p.n();
  std::vector<double> y(v.x.size());
  for (const int d : {0, 1}) {
    std::vector<double> state(p.P * p.N);
    const auto token = [&](int64_t q) { return d == 0 ? q : n - 1 - q; };
    for (int64_t q = 0; q < n; ++q) {
      const int64_t t = token(q);
      const double dt = std::log1p(std::exp(v.dt[d][t] + v.dt_bias[0])),
                   decay = std::exp(v.A[0] * dt);
      for (int i = 0; i < p.P; ++i)
        for (int k = 0; k < p.N; ++k) {
          double& value = state[i * p.N + k];
          if (q > 0) y[t * p.P + i] += v.c[d][token(q - 1) * p.N + k] * value;
          value = decay * value + dt * v.b[d][t * p.N + k] * v.x[t * p.P + i];
        }
    }
  }
  for (int64_t i = 0; i < n * p.P; ++i) y[i] += (v.diagonal[0] + v.delta[i / p.P]) * v.x[i];
  return y;
}

// <dx, x> = <dy, y>: the backward pass applies the transposed matrix. The error is relative to the
// norm of y and as many standard normal numbers.
inline double adjoint_error(const ScanValues& v, const std::vector<double>& y,
                            const std::vector<double>& dx) {
  double one = 0, other = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    one += dx[i] * v.x[i];
    other += v.dy[i] * y[i];
    size += y[i] * y[i];
  }
  return std::abs(one - other) / std::sqrt(size * static_cast<double>(y.size()));
}

}  // namespace hydramix::cuda
