// SPDX-License-Identifier: Apache-2.0
// 1/z as a short sum of exponentials, for z in an interval of positive numbers:
//
//   1/z ~ sum_r w_r exp(-t_r z),   relative error <= tolerance for the sum and for its derivative
//
// This separates the variables of 1/(a + b), so a Cauchy matrix is a product of two thin ones. The
// trapezoidal rule for 1/z = int exp(u - z e^u) du has nodes t = e^{nh}, so its error is the same
// for every z. The infinitely many nodes near t = 0 are replaced by a few Gaussian ones. The rank
// is O(log(high / low) log(1 / tolerance)); proof in docs/math.md.
#pragma once

#include <cstdint>
#include <vector>

namespace hydramix {

struct Exponentials {
  std::vector<double> t, w;  // (R), all positive
};

class ReciprocalRule {
 public:
  // Computes everything that does not depend on the interval. 1e-16 <= tolerance <= 1e-2.
  explicit ReciprocalRule(double tolerance);

  // The rule for 0 < low <= z <= high, and its number of terms R.
  Exponentials on(double low, double high) const;
  int64_t rank(double low, double high) const;

  double step() const { return h_; }               // h
  int64_t gauss_nodes() const { return p_; }       // p
  double smallest_tail() const { return theta_; }  // theta: Gaussian nodes cover z t <= theta
  double largest_term() const { return tau_; }     // tau: terms with z t > tau are omitted

 private:
  int64_t first(double high) const;  // index n of the first trapezoidal node in use
  int64_t last(double low) const;    // and of the last one

  double h_, tau_, theta_;
  int64_t p_;
  std::vector<double> gauss_t_, gauss_w_;  // (p), for nodes 1, q, q^2, ... with weights h q^n
};

}  // namespace hydramix
