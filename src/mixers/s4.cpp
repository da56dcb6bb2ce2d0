// SPDX-License-Identifier: Apache-2.0
// S4: a state-space model whose state matrix is normal plus low rank, A = Lambda - p p*, at first
// that of HiPPO-LegS, discretised by the bilinear rule:
//
//   M_ij = k_{i-j}  (i >= j)  + D [i = j],    k_l = c Abar^l bbar,
//   Abar = (1 - dt A/2)^-1 (1 + dt A/2),      bbar = (1 - dt A/2)^-1 dt b
//
// The discrete Fourier transform of k_0 .. k_{n-1} is a rational function of the roots of unity z,
//
//   khat(z) = 2 / (1 + z) (<c~, b> - <c~, p> <p*, b> / (1 + <p*, p>)),    c~ = c (1 - Abar^n),
//   <u, v> = sum_m u_m v_m / (2/dt (1 - z)/(1 + z) - Lambda_m)
//
// so k is an inverse FFT. The weight C is c~ for n = max_length. A longer sequence needs the c~ of
// a longer n: each doubling of n multiplies it by 1 + Abar^n. Lambda, p, b and c consist of
// conjugate pairs, of which one is stored; an odd d_state is rounded up to whole pairs. The
// bidirectional form has k'_{j-i-1} above the diagonal, with the same A and b and a second c.
//
// Gu, Goel & Re 2022, Efficiently Modeling Long Sequences with Structured State Spaces. Cost
// O(N n) for the kernels, O(L log L) to apply them.
#include <algorithm>
#include <cmath>

#include "hydramix/registry.h"
#include "mixers/diagonal_kernel.h"
#include "mixers/long_convolution.h"
#include "ops/product.h"
#include "ops/recompute.h"

namespace hydramix {
namespace {

using torch::Tensor;

Tensor to_complex(const Tensor& real) { return torch::complex(real, torch::zeros_like(real)); }

// One of each conjugate pair of HiPPO-LegS in the basis where its normal part is diagonal.
struct LegS {
  Tensor Lambda, p, b;  // (N / 2) complex128
};

LegS hippo_legs(int64_t N) {
  const auto n = torch::arange(N, torch::kFloat64);
  const auto b = torch::sqrt(2 * n + 1), p = torch::sqrt(n + 0.5);
  // A = -b b^T below the diagonal and -(n + 1) on it, so A + p p^T + 1/2 is skew-symmetric: i times
  // a Hermitian matrix.
  const auto A = -(torch::outer(b, b).tril(-1) + torch::diag(n + 1));
  const auto skew = A + torch::outer(p, p) + 0.5 * torch::eye(N, torch::kFloat64);
  const auto [values, V] = torch::linalg_eigh(torch::complex(torch::zeros_like(skew), -skew));
  const int64_t half = N / 2;  // eigenvalues are sorted: the positive half is the last
  const auto frequency = values.narrow(0, half, half);
  const auto to_basis = V.narrow(1, half, half).conj().transpose(0, 1);
  // The phase of an eigenvector is free, and LAPACK's differs from CPU to CPU. The one that makes
  // p real and positive does the same for b = sqrt(2) p.
  const auto real_p = torch::abs(torch::mv(to_basis, to_complex(p)));
  return {torch::complex(torch::full_like(frequency, -0.5), frequency), to_complex(real_p),
          to_complex(std::sqrt(2.0) * real_p)};
}

// The weights as complex128 tensors, one of each conjugate pair.
struct NormalPlusLowRank {
  Tensor dt;            // (H, 1)
  Tensor Lambda, p, b;  // (H, N / 2)
  Tensor c;             // (directions, H, N / 2)
};

// A row vector c of conjugate pairs as the real vector that multiplies (Re x, Im x) of a state x:
// Re(c x) = Re c Re x - Im c Im x. The inverse takes it back.
Tensor real_row(const Tensor& c) { return torch::cat({torch::real(c), -torch::imag(c)}, -1); }
Tensor complex_row(const Tensor& r) {
  const int64_t pairs = r.size(-1) / 2;
  return torch::complex(r.narrow(-1, 0, pairs), -r.narrow(-1, pairs, pairs));
}

// Abar^n as a real matrix on (Re x, Im x): (H, N, N). With X = dt A / 2, Abar = 2 (1 - X)^-1 - 1,
// and by Woodbury's identity (1 - X)^-1 = d - g d p p* d, where d = (1 - dt Lambda/2)^-1 is
// diagonal and g = (dt/2) / (1 + (dt/2) p* d p).
Tensor power_of_step(const NormalPlusLowRank& s, int64_t n) {
  const auto d = 1 / (1 - 0.5 * s.dt * s.Lambda), left = d * s.p, right = s.p.conj() * d;
  const auto pdp = 2 * torch::real(s.p * right).sum(1, /*keepdim=*/true);  // over both of each pair
  const auto g = (0.5 * s.dt / (1 + 0.5 * s.dt * pdp)).unsqueeze(-1);
  // x' = E x + F x* for one of each pair.
  const auto E = torch::diag_embed(2 * d - 1) - 2 * g * left.unsqueeze(2) * right.unsqueeze(1);
  const auto F = -2 * g * left.unsqueeze(2) * right.conj().unsqueeze(1);
  const auto sum = E + F, difference = E - F;
  auto square = torch::cat({torch::cat({torch::real(sum), -torch::imag(difference)}, 2),
                            torch::cat({torch::imag(sum), torch::real(difference)}, 2)},
                           1);
  Tensor power;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) power = power.defined() ? matrix_product(power, square) : square;
    if (n > 1) square = matrix_product(square, square);
  }
  return power;
}

// c times `power` (H, N, N).
Tensor times_power(const Tensor& c, const Tensor& power) {
  const auto rows = real_row(c).transpose(0, 1);  // (H, directions, N)
  return complex_row(matrix_product(rows, power).transpose(0, 1));
}

// khat at the first n / 2 + 1 roots of unity of order n: (directions, H, n / 2 + 1).
//
// At z = exp(-2 i f) is (1 - z)/(1 + z) = i tan f, so the poles are evaluated on the imaginary
// axis. With a = 4/dt sin f and b = 2 cos f, so that z = -1 is an ordinary point, and
//
//   S(v) = sum over all poles of v / (i a - b Lambda),
//   khat = 2 exp(i f) (S(c~ b) - b S(c~ p) S(p* b) / (1 + b S(p* p)))
//
// The two poles of a pair share a denominator:
//
//   S(v) = i a sum_pairs 2 Re(v) / E - b sum_pairs 2 Re(v Lambda*) / E
//   E    = (i a - b Lambda) (i a - b Lambda*)
//        = (b Re Lambda)^2 + (b Im Lambda - a) (b Im Lambda + a) - 2 i a b Re Lambda
Tensor transformed_kernel(const NormalPlusLowRank& s, const Tensor& c, int64_t n) {
  const int64_t D = c.size(0), H = c.size(1), pairs = c.size(2), R = 2 * D + 2;
  const auto p_conj = s.p.conj();
  const auto v =
      torch::cat({c * s.b, c * s.p, (p_conj * s.b).unsqueeze(0), (p_conj * s.p).unsqueeze(0)}, 0);
  const auto weights = 2 * torch::cat({torch::real(v), torch::real(v * s.Lambda.conj())}, 0)
                               .transpose(0, 1);                  // (H, 2 R, N / 2)
  const auto poles = torch::view_as_real(s.Lambda).unsqueeze(2);  // (H, N / 2, 1, 2)

  const auto khat_at = [=, dt = s.dt](const Tensor& w, int64_t first, int64_t count) {
    const auto f =
        torch::arange(first, first + count, dt.options()) * (M_PI / static_cast<double>(n));
    const auto a = 4 / dt * torch::sin(f), b = 2 * torch::cos(f);  // (H, count), (count)
    const auto across = a.unsqueeze(1);
    const auto decay = b * poles.select(3, 0), turn = b * poles.select(3, 1);  // (H, N / 2, count)
    const auto real = decay * decay + (turn - across) * (turn + across);
    const auto imag = -2 * across * decay;
    const auto size = real * real + imag * imag;
    const auto sums = matrix_product(
        w, torch::cat({real / size, -imag / size}, 2));  // (H, 2 R, 2 count): 1 / E, its two parts
    const auto over_E = torch::complex(sums.narrow(2, 0, count), sums.narrow(2, count, count));
    const auto i_a = torch::complex(torch::zeros_like(a), a).unsqueeze(1);
    const auto S = (i_a * over_E.narrow(1, 0, R) - b * over_E.narrow(1, R, R))
                       .transpose(0, 1);  // (R, H, count)
    const auto low_rank = b * S.narrow(0, D, D) * S[2 * D] / (1 + b * S[2 * D + 1]);
    return 2 * torch::polar(torch::ones_like(f), f) * (S.narrow(0, 0, D) - low_rank);
  };
  // A few roots at a time, so that the quotients stay in cache; the backward pass computes them
  // again instead of keeping N / 2 of them per root.
  constexpr int64_t kQuotients = 1 << 18;
  const int64_t roots = n / 2 + 1, step = std::max<int64_t>(1, kQuotients / (H * pairs));
  std::vector<Tensor> khat;
  for (int64_t first = 0; first < roots; first += step) {
    const int64_t count = std::min(step, roots - first);
    khat.push_back(recomputed([=](const Tensor& w) { return khat_at(w, first, count); }, weights,
                              {poles, s.dt}));
  }
  return torch::cat(khat, 2);
}

class S4Kernel : public torch::nn::Module {
 public:
  S4Kernel(int64_t H, int64_t directions, const MixerOptions& options)
      : length_(options.max_length) {
    const int64_t pairs = (options.d_state + 1) / 2;
    const auto legs = hippo_legs(2 * pairs);
    const auto parameter = [&](const char* name, const Tensor& t) {
      return register_parameter(name, t.to(torch::kFloat32).contiguous());
    };
    const auto every_head = [&](const Tensor& t) { return t.repeat({H, 1}); };
    log_dt = parameter("log_dt", initial_log_dt(H, options));
    log_A_real = parameter("log_A_real", every_head(torch::log(-torch::real(legs.Lambda))));
    A_imag = parameter("A_imag", every_head(torch::imag(legs.Lambda)));
    P = parameter("P", torch::view_as_real(every_head(legs.p)));
    B = parameter("B", torch::view_as_real(every_head(legs.b)));
    C = parameter("C", torch::randn({directions, H, pairs, 2}) * std::sqrt(0.5));
    const torch::NoGradGuard no_grad;
    const auto s = weights([](const Tensor& w) { return w.to(torch::kFloat64); });
    C.copy_(torch::view_as_real((s.c - times_power(s.c, power_of_step(s, length_))).contiguous()));
  }

  // (directions, H, L) of the given dtype.
  Tensor operator()(int64_t L, torch::ScalarType dtype, const WideWeight& wide) const {
    const auto s = weights(wide);
    auto c = s.c;
    int64_t n = length_;
    if (n < L) {
      auto power = power_of_step(s, n);
      for (; n < L; n *= 2) {
        c = c + times_power(c, power);
        if (2 * n < L) power = torch::matmul(power, power);
      }
    }
    return torch::fft::irfft(transformed_kernel(s, c, n), n).narrow(2, 0, L).to(dtype);
  }

 private:
  NormalPlusLowRank weights(const WideWeight& wide) const {
    const auto complex = [&](const Tensor& w) {
      return torch::view_as_complex(wide(w).contiguous());
    };
    return {wide(log_dt).exp().unsqueeze(1), torch::complex(-wide(log_A_real).exp(), wide(A_imag)),
            complex(P), complex(B), complex(C)};
  }

  int64_t length_;            // n of the weight C
  Tensor log_dt;              // (H)
  Tensor log_A_real, A_imag;  // (H, N / 2): Lambda
  Tensor P, B;                // (H, N / 2, 2)
  Tensor C;                   // (directions, H, N / 2, 2)
};

class S4 : public LongConvolution {
 public:
  S4(Heads heads, const MixerOptions& options, int64_t directions = 1)
      : LongConvolution(heads, options),
        kernel(
            register_module("kernel", std::make_shared<S4Kernel>(heads.H, directions, options))) {}

 protected:
  Tensor kernels(const Rows& rows) const override {
    return (*kernel)(rows.L, rows.options.dtype().toScalarType(),
                     [&](const Tensor& w) { return weight(w, rows).to(torch::kFloat64); });
  }

 private:
  std::shared_ptr<S4Kernel> kernel;
};

class S4Bidirectional : public S4 {
 public:
  S4Bidirectional(Heads heads, const MixerOptions& options)
      : S4(heads, options, /*directions=*/2) {}
};

HYDRAMIX_REGISTER_MIXER("s4", S4, .matrix_class = "Toeplitz, semiseparable",
                        .formula = "c Abar^{i-j} bbar for i >= j", .cost = "O(L log L)",
                        .source = "S4, Gu et al. 2022", .causal = true, .paper_aligned = false,
                        .choose =
                            "To compare with the original structured state space, whose kernel "
                            "does not depend on the data.",
                        .published = "style=plain expand=1 headdim=1");

HYDRAMIX_REGISTER_MIXER(
    "s4_bidirectional", S4Bidirectional, .matrix_class = "Toeplitz, quasiseparable",
    .formula = "k_{i-j} for i >= j, k'_{j-i-1} for i < j", .cost = "O(L log L)",
    .source = "S4, Gu et al. 2022", .paper_aligned = false,
    .choose = "To compare with the original structured state space as an encoder.",
    .published = "style=plain expand=1 headdim=1");

}  // namespace
}  // namespace hydramix
