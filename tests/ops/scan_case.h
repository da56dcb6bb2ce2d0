// SPDX-License-Identifier: Apache-2.0
// Random scans for tests, and their definition by dense matrices.
#pragma once

#include <cmath>

#include "ops/scan.h"
#include "ops/semiseparable.h"
#include "support/expect.h"
#include "support/tensors.h"

namespace hydramix::test {

using torch::Tensor;

struct ScanCase {
  Tensor x, dt_bias, A, delta;
  ScanDirection forward, backward;
  std::vector<int64_t> offsets;
  ScanSettings settings;

  std::vector<std::pair<std::string, Tensor*>> inputs() {
    std::vector<std::pair<std::string, Tensor*>> all{
        {"x", &x}, {"dt_bias", &dt_bias}, {"A", &A}, {"delta", &delta}};
    for (auto* d : {&forward, &backward}) {
      if (!d->dt.defined()) continue;
      const std::string name = d == &forward ? "forward " : "backward ";
      all.insert(all.end(), {{name + "dt", &d->dt}, {name + "b", &d->b}, {name + "c", &d->c}});
    }
    return all;
  }
  Tensor run() const {
    return packed_scan(x, forward, backward, dt_bias, A, delta, offsets, settings);
  }
  ScanCase to(torch::ScalarType type) const {
    ScanCase c = *this;
    for (auto& [name, t] : c.inputs()) *t = t->detach().to(type);
    return c;
  }
};

struct ScanSizes {
  int64_t H = 4, P = 5, G = 2, N = 3, tile = 16, shift = 1;
  bool forward = true, backward = true, per_token = true;
};

inline ScanCase random_scan(const std::vector<int64_t>& lengths, const ScanSizes& z,
                            uint64_t seed) {
  torch::manual_seed(seed);
  ScanCase c;
  c.offsets = {0};
  for (const int64_t L : lengths) c.offsets.push_back(c.offsets.back() + L);
  const int64_t n = c.offsets.back();
  const auto normal = [](std::vector<int64_t> shape) {
    return torch::randn(shape, torch::kFloat64);
  };
  const auto direction = [&] {
    return ScanDirection{normal({n, z.H}), normal({n, z.G, z.N}), normal({n, z.G, z.N})};
  };
  c.x = normal({n, z.H, z.P});
  if (z.forward) c.forward = direction();
  if (z.backward) c.backward = direction();
  c.dt_bias = normal({z.H});
  c.A = -torch::rand({z.H}, torch::kFloat64) - 0.1;
  c.delta = z.per_token ? normal({n, z.H}) : normal({z.H});
  c.settings.tile = z.tile;
  c.settings.shift = z.shift;
  return c;
}

// The definition: dense matrices, one sequence at a time.
inline Tensor dense_scan(const ScanCase& c) {
  std::vector<Tensor> each;
  const int64_t H = c.x.size(1);
  for (std::size_t s = 0; s + 1 < c.offsets.size(); ++s) {
    const int64_t begin = c.offsets[s], L = c.offsets[s + 1] - begin;
    if (L == 0) continue;
    const auto part = [&](const Tensor& t) { return t.narrow(0, begin, L).unsqueeze(0); };
    const auto matrix = [&](const ScanDirection& d, bool flipped) {
      const auto dt =
          torch::softplus(part(d.dt) + c.dt_bias).clamp(c.settings.dt_low, c.settings.dt_high);
      ScanParams p{dt, c.A, part(d.b), part(d.c)};
      auto M = semiseparable_matrix(flipped ? p.flipped() : p);
      if (c.settings.shift == 1) M = shift(M, 2);
      return flipped ? M.flip({2, 3}) : M;
    };
    const auto delta =
        c.delta.dim() == 1 ? c.delta.unsqueeze(1).expand({H, L}) : c.delta.narrow(0, begin, L).t();
    auto M = torch::diag_embed(delta).unsqueeze(0);
    if (c.forward.dt.defined()) M = M + matrix(c.forward, false);
    if (c.backward.dt.defined()) M = M + matrix(c.backward, true);
    each.push_back(dense_apply(M, part(c.x)).squeeze(0));
  }
  return torch::cat(each);
}

inline void expect_equals_dense(ScanCase c, double tolerance, const std::string& what) {
  for (auto& [name, t] : c.inputs()) t->requires_grad_();
  std::vector<Tensor> inputs;
  for (auto& [name, t] : c.inputs()) inputs.push_back(*t);
  const auto fast = c.run(), dense = dense_scan(c);
  expect_close(fast, dense, tolerance, what);
  {
    torch::NoGradGuard no_grad;  // states are not saved
    EXPECT_TRUE(torch::equal(c.run(), fast)) << what;
  }
  const auto dy = torch::randn_like(dense);
  const auto a = torch::autograd::grad({fast}, inputs, {dy});
  const auto b = torch::autograd::grad({dense}, inputs, {dy}, {}, false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(a[i], b[i].defined() ? b[i] : torch::zeros_like(inputs[i]), tolerance,
                 what + ": gradient of " + c.inputs()[i].first);
}

// Shifted by one value in a wider buffer, so that no row is aligned to a vector.
inline Tensor inside_wider_rows(const Tensor& t) {
  const auto flat = t.flatten(1);
  const auto edge = [&](int64_t n) { return torch::full({t.size(0), n}, NAN, t.options()); };
  return torch::cat({edge(1), flat, edge(2)}, 1)
      .narrow(1, 1, flat.size(1))
      .unflatten(1, t.sizes().slice(1).vec());
}

// The output, and all gradients that have a row per token.
inline std::vector<Tensor> everything_of_scan(ScanCase c, const Tensor& dy) {
  for (auto& [name, t] : c.inputs()) *t = t->detach().clone().requires_grad_();
  const auto y = c.run();
  y.backward(dy);
  std::vector<Tensor> all{y.detach(), c.x.grad(), c.delta.grad()};
  for (const auto* d : {&c.forward, &c.backward})
    if (d->dt.defined()) all.insert(all.end(), {d->dt.grad(), d->b.grad(), d->c.grad()});
  return all;
}

}  // namespace hydramix::test
