// SPDX-License-Identifier: Apache-2.0
// A non-finite sequence in a packed batch does not affect its neighbours: their outputs and
// gradients have the same bits as with finite values in its place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/scan_reference.h"

namespace hydramix::cuda {

// Expects equal bits of a and b (n, width) at tokens outside [begin, end), and a non-finite value
// of b inside. NaN equals nothing, so equal values are numbers.
inline void expect_isolated(const std::vector<double>& a, const std::vector<double>& b, int64_t n,
                            int64_t begin, int64_t end, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  const auto width = static_cast<int64_t>(a.size()) / n;
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < n * width; ++i) {
    const int64_t t = i / width;
    if ((t >= begin && t < end) || a[i] == b[i]) continue;
    if (wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0) << what << ": first at token " << first / width << ", column "
                      << first % width << ": " << a[first] << " became " << b[first];
}

// `run` calls the kernels on these values. `kinds` are the inputs that they read.
template <typename S>
void expect_isolation(const ScanProblem& p,
                      const std::function<ScanResults(const ScanValues&)>& run,
                      const std::vector<const char*>& kinds = {"x", "dt", "b", "c", "dy",
                                                               "delta"}) {
  const auto offsets = p.offsets();
  const int64_t n = p.n();
  const auto good = ScanValues::of<S>(p);
  const ScanResults expected = run(good);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int64_t begin = offsets[s], end = offsets[s + 1];
    if (begin == end) continue;
    for (const char* kind : kinds)
      for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        SCOPED_TRACE("sequence " + std::to_string(s) + " of " + std::to_string(end - begin) +
                     " tokens has " + kind + " = " + std::to_string(bad));
        ScanValues v = good;
        const auto spoil = [&](std::vector<double>& values) {
          const auto width = static_cast<int64_t>(values.size()) / n;
          // A single token, so that local effects are detected as well as those that fill the
          // sequence.
          const int64_t t = (begin + end) / 2;
          for (int64_t i = t * width; i < (t + 1) * width; ++i) values[i] = bad;
        };
        const std::string name = kind;
        if (name == "x") spoil(v.x);
        if (name == "dy") spoil(v.dy);
        if (name == "delta") spoil(v.delta);
        for (const int d : {0, 1}) {
          if (name == "dt") spoil(v.dt[d]);
          if (name == "b") spoil(v.b[d]);
          if (name == "c") spoil(v.c[d]);
        }
        const ScanResults got = run(v);
        const auto expect = [&](const std::vector<double>& a, const std::vector<double>& b,
                                const char* what) { expect_isolated(a, b, n, begin, end, what); };
        expect(expected.y, got.y, "y");
        expect(expected.dx, got.dx, "dx");
        expect(expected.ddelta, got.ddelta, "ddelta");
        for (const int d : {0, 1}) {
          if (!p.on[d]) continue;
          expect(expected.db[d], got.db[d], d == 0 ? "db" : "db backward");
          expect(expected.dc[d], got.dc[d], d == 0 ? "dc" : "dc backward");
          expect(expected.ddt[d], got.ddt[d], d == 0 ? "ddt" : "ddt backward");
        }
        // Non-finite results must not be hidden either.
        if (name == "x" || name == "delta") {
          const auto all_finite = [&](const std::vector<double>& values) {
            const auto width = static_cast<int64_t>(values.size()) / n;
            for (int64_t i = begin * width; i < end * width; ++i)
              if (!std::isfinite(values[i])) return false;
            return true;
          };
          EXPECT_FALSE(all_finite(got.y)) << "y of the sequence itself";
        }
        if (::testing::Test::HasFailure()) return;
      }
  }
}

}  // namespace hydramix::cuda
