// SPDX-License-Identifier: Apache-2.0
// The scan on a GPU through LibTorch, with and without tensor cores: outputs, gradients, strided
// tensors, determinism.
#include "ops/scan.h"

#include "hydramix/mixer.h"
#include "ops/semiseparable.h"
#include "support/gpu.h"

#ifdef HYDRAMIX_GPU
#include "kernels/cuda/scan.h"
#include "ops/sequences.h"
#endif

namespace hydramix {
namespace {

using test::described;
using test::expect_exact;
using test::expect_exact_in_both;
using test::kGpu;
using test::Memory;
using test::normal;
using test::offsets_of;
using test::Operation;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

class GpuScan : public test::OnGpu {};

struct ScanSizes {
  std::vector<int64_t> lengths;
  int64_t H = 4, P = 64, G = 1, N = 64, shift = 1;
  bool on[2] = {true, true};
  bool per_token = true;
  double dt_low = 0, dt_high = std::numeric_limits<double>::infinity();
};

struct ScanArguments {
  Tensor x, dt_bias, A, delta;
  ScanDirection directions[2];

  ScanArguments(const ScanSizes& z, const Tensors& in)
      : x(in[0]), dt_bias(in[1]), A(in[2]), delta(in[3]) {
    std::size_t next = 4;
    for (const int d : {0, 1})
      if (z.on[d]) {
        directions[d] = {in[next], in[next + 1], in[next + 2]};
        next += 3;
      }
  }
};

// Matrices in the dtype of x, from decays computed in float32.
Tensor naive_scan(const ScanSizes& z, const ScanArguments& a) {
  const auto type = a.x.scalar_type();
  Tensors each;
  const auto offsets = offsets_of(z.lengths);
  for (std::size_t s = 0; s < z.lengths.size(); ++s) {
    const int64_t L = z.lengths[s];
    if (L == 0) continue;
    const auto part = [&](const Tensor& t) { return t.narrow(0, offsets[s], L).unsqueeze(0); };
    auto M = torch::diag_embed(z.per_token ? part(a.delta).transpose(1, 2)
                                           : a.delta.view({1, -1, 1}).expand({1, z.H, L}))
                 .to(type);
    for (const int d : {0, 1}) {
      if (!z.on[d]) continue;
      const auto& from = a.directions[d];
      const auto dt = torch::softplus(part(from.dt) + a.dt_bias).clamp(z.dt_low, z.dt_high);
      const auto one = torch::ones({1, L, 1, 1}, dt.options());
      const ScanParams decays{dt, a.A, one, one}, scores{dt, a.A, part(from.b), part(from.c)};
      const auto p = d == 0 ? scores : scores.flipped();
      const auto cb = torch::einsum("slgn,smgn->sglm", {p.c, p.b});
      auto T = cb.repeat_interleave(z.H / z.G, 1) *
               semiseparable_matrix(d == 0 ? decays : decays.flipped()).to(type);
      if (z.shift == 1) T = shift(T, 2);
      M = M + (d == 0 ? T : T.flip({2, 3}));
    }
    each.push_back(dense_apply(M, part(a.x)).squeeze(0));
  }
  return torch::cat(each);
}

Operation scan(const ScanSizes& z) {
  torch::manual_seed(3);
  const auto offsets = offsets_of(z.lengths);
  const int64_t n = offsets.back();
  Operation op;
  op.inputs = {{"x", normal({n, z.H, z.P})},
               {"dt_bias", normal({z.H}, 0.5), false},
               {"A", -torch::rand({z.H}, torch::kFloat64) * 4 - 0.5, false},
               {"delta", z.per_token ? normal({n, z.H}) : normal({z.H}), false}};
  for (const int d : {0, 1})
    if (z.on[d]) {
      const std::string which = d == 0 ? "forward " : "backward ";
      op.inputs.push_back({which + "dt", normal({n, z.H}) - 2, false});
      op.inputs.push_back({which + "b", normal({n, z.G, z.N}, 0.3)});
      op.inputs.push_back({which + "c", normal({n, z.G, z.N}, 0.3)});
    }
  op.run = [z, offsets](const Tensors& in) {
    const ScanArguments a(z, in);
    return packed_scan(a.x, a.directions[0], a.directions[1], a.dt_bias, a.A, a.delta, offsets,
                       {.shift = z.shift, .dt_low = z.dt_low, .dt_high = z.dt_high});
  };
  op.naive = [z](const Tensors& in) { return naive_scan(z, ScanArguments(z, in)); };
  return op;
}

// The same with fixed decays and a fixed diagonal: only x, b and c have gradients. One direction.
Operation fixed_scan(const ScanSizes& z) {
  Operation op = scan(z);
  Tensors fixed;  // dt_bias, A, delta, dt
  for (const int i : {1, 2, 3, 4})
    fixed.push_back(op.inputs[i].value.to(torch::kFloat32).to(torch::kFloat64));
  op.inputs = {op.inputs[0], op.inputs[5], op.inputs[6]};
  const auto with_fixed = [fixed](const test::Function& f) {
    return [f, fixed](const Tensors& in) {
      const auto& x = in[0];
      Tensors all{x};
      for (const auto& t : fixed)
        all.push_back(t.to(x.device(),
                           x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32));
      all.insert(all.end(), {in[1], in[2]});
      return f(all);
    };
  };
  op.run = with_fixed(op.run);
  op.naive = with_fixed(op.naive);
  return op;
}

TEST_F(GpuScan, AwkwardLengths) {
  for (const int64_t L : {1, 2, 3, 31, 127, 128, 129, 257, 401})
    expect_exact_in_both(scan({.lengths = {L}}), "L = " + std::to_string(L));
}

TEST_F(GpuScan, SequencesEndToEnd) {
  for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
           {1, 1, 2, 1, 3}, {127, 128, 129}, {5, 300, 1, 0, 61, 17}, {128, 128}})
    expect_exact_in_both(scan({.lengths = lengths}), described(lengths));
}

// The tensor-core kernels support heads of a multiple of 32 channels with 16, 32, 64 or 128 states;
// other sizes use the plain kernels.
TEST_F(GpuScan, AnySizes) {
  for (const int64_t P : {32, 64, 96})
    for (const int64_t N : {16, 32, 128})
      expect_exact(scan({.lengths = {150, 77}, .H = 2, .P = P, .N = N}), torch::kBFloat16,
                   described({P, N}) + ": tensor cores");
  for (const auto& [P, N] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {24, 20}, {64, 48}, {33, 16}})
    expect_exact_in_both(scan({.lengths = {150, 77}, .H = 2, .P = P, .N = N}),
                         described({P, N}) + ": ordinary cores");
}

TEST_F(GpuScan, Groups) {
  for (const int64_t N : {16, 11})
    for (const int64_t G : {1, 2, 3, 6})
      expect_exact_in_both(scan({.lengths = {140, 9}, .H = 6, .P = 32, .G = G, .N = N}),
                           described({G, N}));
}

// Heads with their own b and c have kernels of their own if decays need no gradients.
TEST_F(GpuScan, FixedDecays) {
  for (const bool forward : {true, false})
    for (const int64_t G : {2, 1})
      for (const int64_t N : {32, 64, 128})
        expect_exact_in_both(fixed_scan({.lengths = {140, 1, 300, 30},
                                         .H = 2,
                                         .G = G,
                                         .N = N,
                                         .shift = 0,
                                         .on = {forward, !forward},
                                         .per_token = false}),
                             described({forward, G, N}));
}

TEST_F(GpuScan, EveryKind) {
  for (const int64_t shift : {0, 1})
    for (const int directions : {1, 2, 3})
      for (const bool per_token : {false, true})
        expect_exact_in_both(scan({.lengths = {140, 1, 30},
                                   .P = 32,
                                   .N = 16,
                                   .shift = shift,
                                   .on = {(directions & 1) != 0, (directions & 2) != 0},
                                   .per_token = per_token}),
                             described({shift, directions, per_token}));
}

// Through autograd: a sequence that is not finite does not affect the others of its batch.
TEST_F(GpuScan, NonFiniteValuesStayInTheirSequence) {
  const std::vector<int64_t> lengths{30, 50, 200, 20};
  const auto op = scan({.lengths = lengths});
  const auto offsets = offsets_of(lengths);
  for (const auto type : {torch::kBFloat16, torch::kFloat32})
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      // The output and the gradients that have a row per token, without the rows of sequence s.
      const auto others = [&](bool spoilt) {
        Tensors in, results;
        for (const auto& input : op.inputs) {
          auto value = input.value.to(kGpu, input.stored ? type : torch::kFloat32).clone();
          if (spoilt && input.name == "x")
            value.narrow(0, offsets[s], lengths[s]).fill_(std::numeric_limits<double>::infinity());
          in.push_back(value.requires_grad_());
        }
        const auto y = op.run(in);
        y.sum().backward();
        results.push_back(y.detach());
        for (const auto& leaf : in)
          if (leaf.size(0) == offsets.back()) results.push_back(leaf.grad());
        for (auto& t : results)
          t = torch::cat({t.narrow(0, 0, offsets[s]),
                          t.narrow(0, offsets[s + 1], offsets.back() - offsets[s + 1])});
        return results;
      };
      const auto expected = others(false), got = others(true);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(torch::equal(got[i], expected[i]))
            << "result " << i << ", sequence " << s << (type == torch::kFloat32 ? ", float32" : "");
    }
}

TEST_F(GpuScan, LimitsOfDt) {
  for (const int64_t N : {16, 11})
    expect_exact_in_both(scan({.lengths = {140}, .P = 32, .N = N, .dt_low = 0.1, .dt_high = 0.3}),
                         described({N}));
}

#ifdef HYDRAMIX_GPU
// With the shared memory of an A100, inference gives the same bits as with more; calls with
// gradients use the plain kernels.
TEST_F(GpuScan, SmallerGpus) {
  const auto op = scan({.lengths = {300, 20}});
  Tensors in;
  for (const auto& input : op.inputs)
    in.push_back(input.value.to(kGpu, input.stored ? torch::kBFloat16 : torch::kFloat32));
  const auto infer = [&] {
    const torch::NoGradGuard no_grad;
    return op.run(in);
  };
  const auto expected = infer();
  cuda::limit_shared_memory(163 << 10);
  EXPECT_TRUE(torch::equal(infer(), expected));
  expect_exact(op, torch::kBFloat16, "163 KiB");
  cuda::limit_shared_memory(227 << 10);
}

TEST_F(GpuScan, TooManyTokensAreRefused) {
  try {
    make_table(Sequences({0, int64_t{1} << 30}), kGpu);
    FAIL() << "was not refused";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("fewer than 2^30 tokens"), std::string::npos)
        << error.what();
  }
}
#endif

TEST_F(GpuScan, ColumnsOfWiderTensors) {
  for (const auto memory : {Memory::kColumns, Memory::kMisaligned})
    for (const int64_t N : {16, 11})
      expect_exact_in_both(scan({.lengths = {130, 41}, .P = 32, .G = 2, .N = N}), described({N}),
                           memory);
}

}  // namespace
}  // namespace hydramix
