// SPDX-License-Identifier: Apache-2.0
// The scan on packed tokens by its formula, entry by entry, in float64, with gradients: the
// reference for every scan kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/cuda.h"

namespace hydramix::cuda {

struct ScanProblem {
  std::vector<int64_t> lengths = {};
  int H = 2, P = 64, G = 1, N = 64, shift = 1;
  bool on[2] = {true, true};
  double dt_mean = -2, dt_spread = 1, A_low = 0.5, A_high = 8;
  double dt_low = 0, dt_high = INFINITY;
  int segment = 0;      // 0: as TokenTiles says
  int empty_tiles = 0;  // after the others, as in a table for any layout

  int64_t n() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  std::vector<int64_t> offsets() const {
    std::vector<int64_t> all{0};
    for (const int64_t length : lengths) all.push_back(all.back() + length);
    return all;
  }
};

// All values in float64, rounded as on the device: per-token values to storage type S.
struct ScanValues {
  std::vector<double> x, b[2], c[2], dt[2], dt_bias, A, diagonal, delta, dy;

  template <typename S>
  static ScanValues of(const ScanProblem& p) {
    ScanValues v;
    v.fill(p, [](const std::vector<double>& values) { return widened(stored<S>(values)); });
    return v;
  }

 private:
  template <typename Rounded>
  void fill(const ScanProblem& p, const Rounded& rounded) {
    const auto floats = [](const std::vector<double>& v) { return widened(stored<float>(v)); };
    const int64_t n = p.n();
    x = rounded(normal_values(n * p.H * p.P, 1));
    for (const int d : {0, 1}) {
      b[d] = rounded(normal_values(n * p.G * p.N, 2 + d, 0.3));
      c[d] = rounded(normal_values(n * p.G * p.N, 4 + d, 0.3));
      dt[d] = normal_values(n * p.H, 6 + d, p.dt_spread);
      for (auto& v : dt[d]) v += p.dt_mean;
      dt[d] = rounded(dt[d]);
    }
    dt_bias = floats(normal_values(p.H, 8, 0.5));
    for (int h = 0; h < p.H; ++h)
      A.push_back(-(p.A_low + (p.A_high - p.A_low) * h / std::max(1, p.H - 1)));
    A = floats(A);
    diagonal = floats(normal_values(p.H, 9));
    delta = rounded(normal_values(n * p.H, 10));
    dy = rounded(normal_values(n * p.H * p.P, 11));
  }
};

struct ScanResults {
  std::vector<double> y, dx, db[2], dc[2], ddt[2], ddt_bias, dA, ddiagonal, ddelta;
};

inline ScanResults scan_reference(const ScanProblem& p, const ScanValues& v) {
  const int64_t n = p.n();
  const int H = p.H, P = p.P, N = p.N, G = p.G;
  ScanResults r;
  r.y.resize(n * H * P);
  r.dx.resize(n * H * P);
  for (const int d : {0, 1}) {
    r.db[d].resize(n * G * N);
    r.dc[d].resize(n * G * N);
    r.ddt[d].resize(n * H);
  }
  r.ddt_bias.resize(H);
  r.dA.resize(H);
  r.ddiagonal.resize(H);
  r.ddelta.resize(n * H);
  const auto offsets = p.offsets();
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int h = 0; h < H; ++h) {
      const int64_t begin = offsets[s], L = offsets[s + 1] - begin;
      const int g = h / (H / G);
      const auto row = [&](const std::vector<double>& m, int64_t t, int64_t width, int64_t at) {
        return m.data() + (begin + t) * width + at;
      };
      for (int64_t i = 0; i < L; ++i) {
        const double delta = v.diagonal[h] + v.delta[(begin + i) * H + h];
        double dot = 0;
        for (int q = 0; q < P; ++q) {
          const int64_t at = ((begin + i) * H + h) * P + q;
          r.y[at] += delta * v.x[at];
          r.dx[at] += delta * v.dy[at];
          dot += v.x[at] * v.dy[at];
        }
        r.ddelta[(begin + i) * H + h] = dot;
        r.ddiagonal[h] += dot;
      }
      for (const int d : {0, 1}) {
        if (!p.on[d]) continue;
        std::vector<double> raw(L), dt(L), sum(L + 1), ddt(L), da(L + 1);
        // Positions in the order of the direction.
        const auto token = [&](int64_t q) { return d == 0 ? q : L - 1 - q; };
        for (int64_t q = 0; q < L; ++q) {
          raw[q] = v.dt[d][(begin + token(q)) * H + h] + v.dt_bias[h];
          const double soft = raw[q] > 30 ? raw[q] : std::log1p(std::exp(raw[q]));
          dt[q] = std::clamp(soft, p.dt_low, p.dt_high);
          sum[q + 1] = sum[q] + v.A[h] * dt[q];
        }
        for (int64_t i = p.shift; i < L; ++i) {
          const int64_t look = i - p.shift;
          const double* c = row(v.c[d], token(look), G * N, g * N);
          double* dc = const_cast<double*>(row(r.dc[d], token(look), G * N, g * N));
          for (int64_t j = look; j >= 0; --j) {
            const double decay = std::exp(sum[look + 1] - sum[j + 1]);
            if (decay < 1e-30) break;
            const double* b = row(v.b[d], token(j), G * N, g * N);
            double* db = const_cast<double*>(row(r.db[d], token(j), G * N, g * N));
            double product = 0, dM = 0;
            for (int k = 0; k < N; ++k) product += c[k] * b[k];
            const double M = product * decay * dt[j];
            const int64_t at_i = ((begin + token(i)) * H + h) * P;
            const int64_t at_j = ((begin + token(j)) * H + h) * P;
            for (int q = 0; q < P; ++q) {
              r.y[at_i + q] += M * v.x[at_j + q];
              r.dx[at_j + q] += M * v.dy[at_i + q];
              dM += v.dy[at_i + q] * v.x[at_j + q];
            }
            for (int k = 0; k < N; ++k) {
              dc[k] += dM * decay * dt[j] * b[k];
              db[k] += dM * decay * dt[j] * c[k];
            }
            ddt[j] += dM * product * decay;
            // dM M is added to a_{j+1} .. a_look, by a prefix sum below.
            da[j + 1] += dM * M;
            da[look + 1] -= dM * M;
          }
        }
        double running = 0;
        for (int64_t q = 0; q < L; ++q) {
          running += da[q];
          const double free = raw[q] > 30 ? raw[q] : std::log1p(std::exp(raw[q]));
          const double slope = free == dt[q] ? 1 / (1 + std::exp(-raw[q])) : 0;
          const double draw = (ddt[q] + v.A[h] * running) * slope;
          r.ddt[d][(begin + token(q)) * H + h] = draw;
          r.ddt_bias[h] += draw;
          r.dA[h] += running * dt[q];
        }
      }
    }
  return r;
}

}  // namespace hydramix::cuda
