// SPDX-License-Identifier: Apache-2.0
#include "ops/sum_of_exponentials.h"

#include <algorithm>
#include <cmath>

#include "hydramix/error.h"
#include "hydramix/torch_compat.h"

namespace hydramix {
namespace {

constexpr int64_t kMaxGaussNodes = 24;

// 2 sum_k |Gamma(2 + i y_k)|, y_k = 2 pi k / h: the trapezoidal rule's relative error for the
// derivative, which is the larger one. |Gamma(2 + iy)|^2 = (1 + y^2) pi y / sinh(pi y), in
// logarithms because sinh overflows.
double trapezoidal_error(double h) {
  double sum = 0;
  for (int k = 1; k <= 64; ++k) {
    const double y = 2 * M_PI * k / h;
    const double log_sinh = M_PI * y - std::log(2.0) + std::log1p(-std::exp(-2 * M_PI * y));
    const double term = 2 * std::exp(0.5 * (std::log1p(y * y) + std::log(M_PI * y) - log_sinh));
    sum += term;
    if (term < 1e-3 * sum) break;
  }
  return sum;
}

// The largest x in [low, high] with f(x) <= bound, for an increasing f.
template <class F>
double largest(double low, double high, double bound, const F& f) {
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (f(middle) <= bound ? low : high) = middle;
  }
  return low;
}

// Recurrence of the little q-Legendre polynomials, orthogonal over 1, q, q^2, ... with weights q^n.
// Differences 1 - q^n are computed by expm1, since q is near one.
struct LittleQLegendre {
  double h;  // q = exp(-h)
  double q(double n) const { return std::exp(-n * h); }
  double minus(double n) const { return -std::expm1(-n * h); }  // 1 - q^n
  double A(double n) const {
    return q(n) * minus(n + 1) * minus(n + 1) / (minus(2 * n + 1) * minus(2 * n + 2));
  }
  double C(double n) const {
    return n == 0 ? 0 : q(n) * minus(n) * minus(n) / (minus(2 * n) * minus(2 * n + 1));
  }
  double alpha(double n) const { return A(n) + C(n); }     // diagonal of the Jacobi matrix
  double beta(double n) const { return A(n - 1) * C(n); }  // squares of its off-diagonal
};

}  // namespace

ReciprocalRule::ReciprocalRule(double tolerance) {
  HYDRAMIX_CHECK(tolerance >= 1e-16 && tolerance <= 1e-2,
                 "sum of exponentials: the tolerance must be in [1e-16, 1e-2]; got ", tolerance,
                 ". Take the machine epsilon of the arithmetic.");
  // The step may use half of the tolerance, each end a quarter.
  h_ = largest(0.05, 3, tolerance / 2, trapezoidal_error);
  tau_ = largest(1, 60, -tolerance / 4, [](double s) { return -(1 + s) * std::exp(-s); });
  tau_ = std::nextafter(tau_, 61.0);

  // Chooses the number p of Gaussian nodes for the tail z t <= theta that gives the fewest terms in
  // total.
  const LittleQLegendre tail{h_};
  double log_norm = std::log(h_ / tail.minus(1)), best = 1e300;
  for (int64_t p = 1; p <= kMaxGaussNodes; ++p) {
    log_norm += std::log(tail.beta(static_cast<double>(p)));
    const double two_p = 2.0 * static_cast<double>(p);
    const double reach = (std::lgamma(two_p) + std::log(tolerance / 4) - log_norm) / (two_p + 1);
    const double theta = std::min(two_p, std::exp(reach));
    const double terms = static_cast<double>(p) - std::log(theta) / h_;
    if (terms >= best) continue;
    best = terms;
    p_ = p;
    theta_ = theta;
  }

  auto jacobi = torch::zeros({p_, p_}, torch::kFloat64);
  for (int64_t i = 0; i < p_; ++i) {
    jacobi[i][i] = tail.alpha(static_cast<double>(i));
    if (i > 0) jacobi[i][i - 1] = jacobi[i - 1][i] = std::sqrt(tail.beta(static_cast<double>(i)));
  }
  const auto [nodes, vectors] = torch::linalg_eigh(jacobi, "L");
  for (int64_t i = 0; i < p_; ++i) {
    gauss_t_.push_back(nodes[i].item<double>());
    gauss_w_.push_back(h_ / tail.minus(1) * std::pow(vectors[0][i].item<double>(), 2));
  }
}

int64_t ReciprocalRule::first(double high) const {
  return static_cast<int64_t>(std::floor((std::log(theta_) - std::log(high)) / h_)) + 1;
}

int64_t ReciprocalRule::last(double low) const {
  return static_cast<int64_t>(std::ceil((std::log(tau_) - std::log(low)) / h_));
}

int64_t ReciprocalRule::rank(double low, double high) const {
  return p_ + std::max<int64_t>(0, last(low) - first(high) + 1);
}

Exponentials ReciprocalRule::on(double low, double high) const {
  HYDRAMIX_CHECK(low > 0 && low <= high && std::isfinite(high),
                 "sum of exponentials: the interval must be positive and finite; got [", low, ", ",
                 high, "].");
  Exponentials sum;
  // In long double, because the exponent's rounding is the node's relative error.
  const auto node = [&](int64_t n) {
    return static_cast<double>(std::exp(static_cast<long double>(n) * h_));
  };
  const double tail = node(first(high) - 1);
  for (int64_t i = 0; i < p_; ++i) {
    sum.t.push_back(tail * gauss_t_[i]);
    sum.w.push_back(tail * gauss_w_[i]);
  }
  for (int64_t n = first(high); n <= last(low); ++n) {
    const double t = node(n);
    sum.t.push_back(t);
    sum.w.push_back(h_ * t);
  }
  return sum;
}

}  // namespace hydramix
