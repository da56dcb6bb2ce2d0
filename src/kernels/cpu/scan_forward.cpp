// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan_forward.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// dt (H) = clamp(softplus(raw + bias)). Beyond 20 softplus is the identity, as in LibTorch.
template <typename T>
HWY_INLINE void Discretise(const ScanShape& s, const T* HWY_RESTRICT raw,
                           const T* HWY_RESTRICT bias, T* HWY_RESTRICT dt) {
  LoadRow(raw, s.H, dt);
  for (int64_t h = 0; h < s.H; ++h) dt[h] += bias[h];
  ForVectors<T>(ScanShape::padded(s.H), [&](auto d, int64_t h) HWY_ATTR {
    const auto v = hn::Load(d, dt + h), most = hn::Set(d, T{20});
    const auto soft = hn::Log1p(d, hn::Exp(d, hn::Min(v, most)));
    const auto clamped = hn::Min(
        hn::Max(hn::IfThenElse(hn::Gt(v, most), v, soft), hn::Set(d, static_cast<T>(s.dt_low))),
        hn::Set(d, static_cast<T>(s.dt_high)));
    hn::Store(hn::IfThenElse(hn::Eq(v, v), clamped, v), d, dt + h);  // a NaN stays one
  });
}

template <typename S, typename T = Arithmetic<S>>
void Prepare(const ScanShape& s, const ScanChunk& chunk, const ScanInputs<S> inputs[2],
             const T* dt_bias, const T* A, T* prepared, double* sums) {
  const PreparedPlan plan(s);
  const int64_t rows = chunk.rows, ld = s.T(), columns = ScanShape::padded(rows);
  const int64_t Hp = ScanShape::padded(s.H), Np = ScanShape::padded(s.N);
  Scratch<T> scratch(HWY_MAX(Hp, ld * Np) + s.tile * ld + Hp);
  T* row = scratch.Take(HWY_MAX(Hp, ld * Np));
  T* upper = scratch.Take(s.tile * ld);

  for (const int direction : {kForward, kBackward}) {
    T* dt = prepared + plan.dt(direction, 0);
    double* sum = sums + plan.sums(direction, 0);
    if (!s.on[direction]) {
      std::memset(dt, 0, sizeof(T) * static_cast<size_t>(s.H * ld));
      std::memset(sum, 0, sizeof(double) * static_cast<size_t>(s.H * (ld + 1)));
      continue;
    }
    const auto& in = inputs[direction];
    for (int64_t h = 0; h < s.H; ++h) sum[h * (ld + 1)] = 0;
    for (int64_t t = 0; t < rows; ++t) {
      Discretise(s, in.dt + (chunk.begin + t) * in.dt_row, dt_bias, row);
      for (int64_t h = 0; h < s.H; ++h) {
        dt[h * ld + t] = row[h];
        const double step = static_cast<double>(row[h]) * static_cast<double>(A[h]);
        double* at = sum + h * (ld + 1) + t;
        at[1] = at[0] + (step < kLeastLog<T> ? kLeastLog<T> : step);
      }
    }
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t t = rows; t < columns; ++t) dt[h * ld + t] = 0;
  }

  for (int64_t g = 0; g < s.G; ++g) {
    T* cb = prepared + plan.cb(g);
    for (const int direction : {kForward, kBackward}) {
      T *b = prepared + plan.b(direction, g), *c = prepared + plan.c(direction, g);
      T* out = direction == kForward ? cb : upper;
      if (!s.on[direction]) {
        for (int64_t i = 0; i < rows; ++i) std::memset(out + i * ld, 0, sizeof(T) * columns);
        continue;
      }
      const auto& in = inputs[direction];
      for (int64_t t = 0; t < rows; ++t)
        LoadRow(in.b + (chunk.begin + t) * in.b_row + g * s.N, s.N, row + t * Np);
      Transpose(row, Np, rows, s.N, b, ld);
      // Row i reads the state one place before or behind it when shifted, which at the end of the
      // sequence is none.
      const int64_t offset = direction == kForward ? -s.shift : s.shift;
      for (int64_t t = 0; t < rows; ++t) {
        const bool outside = (chunk.first && t + offset < 0) || (chunk.last && t + offset >= rows);
        if (outside)
          std::memset(row + t * Np, 0, sizeof(T) * static_cast<size_t>(Np));
        else
          LoadRow(in.c + (chunk.begin + t + offset) * in.c_row + g * s.N, s.N, row + t * Np);
      }
      Transpose(row, Np, rows, s.N, c, ld);
      Gemm(hn::ScalableTag<T>(), rows, columns, s.N, Entries<T>{c, 1, ld}, b, ld,
           Result<T>{.c = out, .ld = ld});
    }
    T* diagonal = prepared + plan.diagonal(g);
    for (int64_t i = 0; i < rows; ++i) {
      diagonal[i] = upper[i * ld + i];
      for (int64_t j = i + 1; j < columns; ++j) cb[i * ld + j] = upper[i * ld + j];
    }
  }
}

template <typename S, typename T = Arithmetic<S>>
void Forward(const ScanShape& s, const ScanChunk* chunks, int64_t first, int64_t count,
             int64_t task, const ScanOperands<S>& in, const ScanWorkspace<T>& work, S* y,
             int64_t y_row) {
  const hn::ScalableTag<T> d;
  const PreparedPlan plan(s);
  const HeadRange heads = HeadsOf(s, task);
  const int64_t ld = s.T(), Pp = s.Pp(), state = s.state(), g = heads.group;
  Scratch<T> scratch(2 * s.tile * Pp + s.tile * ld + s.N * ld + 2 * Decays<T>::Size(ld) +
                     ScanShape::kTaskHeads * state + 16 * ScanShape::kPad);
  T *X = scratch.Take(s.tile * Pp), *Y = scratch.Take(s.tile * Pp);
  T *M = scratch.Take(s.tile * ld), *scaled = scratch.Take(s.N * ld);
  Decays<T> forward(scratch.Take(Decays<T>::Size(ld)), ld);
  Decays<T> backward(scratch.Take(Decays<T>::Size(ld)), ld);
  T* running = scratch.Take(ScanShape::kTaskHeads * state);

  const auto forward_state = [&](int64_t k, int64_t h) {
    return work.states[kForward] != nullptr ? work.states[kForward] + (k * s.H + h) * state
                                            : running + (h - heads.begin) * state;
  };
  const auto backward_state = [&](int64_t k, int64_t h) {
    return work.states[kBackward] + (k * s.H + h) * state;
  };
  const auto want = [&](Ahead& ahead, const S* rows, int64_t row, int64_t k, int64_t h) {
    const int64_t bytes = sizeof(S);
    ahead.Want(rows + chunks[k].begin * row + h * s.P, chunks[k].rows, row * bytes, s.P * bytes);
  };
  const auto want_state = [&](Ahead& ahead, const T* state_of_head) {
    ahead.Want(state_of_head, 1, 0, state * static_cast<int64_t>(sizeof(T)));
  };
  // next = decays.whole before + (weight b)^T X; before is null where nothing came in.
  const auto carry = [&](const Decays<T>& decays, const T* b, int64_t rows, const T* before,
                         T* next, Ahead& ahead) HWY_ATTR {
    ScaleColumns(b, decays.weight, s.N, ScanShape::padded(rows), ld, scaled);
    Gemm(d, s.N, Pp, rows, Entries<T>{scaled, ld, 1}, X, Pp,
         Result<T>{.c = next, .ld = Pp, .from = before, .factor = decays.whole}, &ahead);
  };

  if (s.on[kBackward])
    for (int64_t k = first + count - 1; k > first; --k) {
      const ScanChunk& chunk = chunks[k];
      const T* prepared = work.prepared + k * plan.size();
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        LoadHead(s, chunk, in.x, in.x_row, h, X);
        Ahead ahead;
        if (h + 1 < heads.end) {
          want(ahead, in.x, in.x_row, k, h + 1);
          want_state(ahead, backward_state(k - 1, h + 1));
        } else {
          want(ahead, in.x, in.x_row, k - 1, heads.begin);
        }
        backward.Set(s, kBackward, work.sums + k * plan.sums_size() + plan.sums(kBackward, h),
                     prepared + plan.dt(kBackward, h), chunk.rows);
        carry(backward, prepared + plan.b(kBackward, g), chunk.rows,
              chunk.last ? nullptr : backward_state(k, h), backward_state(k - 1, h), ahead);
      }
    }

  for (int64_t k = first; k < first + count; ++k) {
    const ScanChunk& chunk = chunks[k];
    const int64_t rows = chunk.rows;
    const T* prepared = work.prepared + k * plan.size();
    const double* sums = work.sums + k * plan.sums_size();
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      const T *dt_f = prepared + plan.dt(kForward, h), *dt_b = prepared + plan.dt(kBackward, h);
      LoadHead(s, chunk, in.x, in.x_row, h, X);
      Ahead ahead;
      want(ahead, y, y_row, k, h);
      if (const bool same = h + 1 < heads.end; same || !chunk.last) {
        const int64_t next = same ? k : k + 1, head = same ? h + 1 : heads.begin;
        want(ahead, in.x, in.x_row, next, head);
        if (s.on[kBackward] && !chunks[next].last) want_state(ahead, backward_state(next, head));
      }
      forward.Set(s, kForward, sums + plan.sums(kForward, h), dt_f, rows);
      backward.Set(s, kBackward, sums + plan.sums(kBackward, h), dt_b, rows);
      ChunkMatrix<T>(s, rows, prepared + plan.cb(g), prepared + plan.diagonal(g), forward, dt_f,
                     backward, dt_b, in.delta + chunk.begin * in.delta_row + h, in.delta_row, M,
                     nullptr);
      Gemm(d, rows, Pp, rows, Entries<T>{M, ld, 1}, X, Pp, Result<T>{.c = Y, .ld = Pp}, &ahead);
      // Y += diag(enter) C H, the state that comes in.
      const auto enter = [&](int direction, const Decays<T>& decays, const T* H) HWY_ATTR {
        Gemm(d, rows, Pp, s.N, Entries<T>{prepared + plan.c(direction, g), 1, ld}, H, Pp,
             Result<T>{.c = Y, .ld = Pp, .from = Y, .scale = decays.enter}, &ahead);
      };
      if (s.on[kForward] && !chunk.first) enter(kForward, forward, forward_state(k, h));
      if (s.on[kBackward] && !chunk.last) enter(kBackward, backward, backward_state(k, h));
      StoreHead(s, chunk, Y, y_row, h, y);
      if (s.on[kForward] && !chunk.last)
        carry(forward, prepared + plan.b(kForward, g), rows,
              chunk.first ? nullptr : forward_state(k, h), forward_state(k + 1, h), ahead);
    }
  }
}

#define HYDRAMIX_SCAN_FORWARD(S, name)                                                          \
  void Prepare##name(const ScanShape& s, const ScanChunk& chunk, const ScanInputs<S> inputs[2], \
                     const Arithmetic<S>* dt_bias, const Arithmetic<S>* A, Arithmetic<S>* p,    \
                     double* sums) {                                                            \
    Prepare<S>(s, chunk, inputs, dt_bias, A, p, sums);                                          \
  }                                                                                             \
  void Forward##name(const ScanShape& s, const ScanChunk* chunks, int64_t first, int64_t count, \
                     int64_t task, const ScanOperands<S>& operands,                             \
                     const ScanWorkspace<Arithmetic<S>>& work, S* y, int64_t y_row) {           \
    Forward<S>(s, chunks, first, count, task, operands, work, y, y_row);                        \
  }
HYDRAMIX_SCAN_FORWARD(float, F32)
HYDRAMIX_SCAN_FORWARD(double, F64)
HYDRAMIX_SCAN_FORWARD(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SCAN_FORWARD(S, name)                                                     \
  HWY_EXPORT(Prepare##name);                                                                      \
  HWY_EXPORT(Forward##name);                                                                      \
  template <>                                                                                     \
  void scan_prepare<S>(const ScanShape& s, const ScanChunk& chunk, const ScanInputs<S> inputs[2], \
                       const Arithmetic<S>* dt_bias, const Arithmetic<S>* A, Arithmetic<S>* p,    \
                       double* sums) {                                                            \
    HWY_DYNAMIC_DISPATCH(Prepare##name)(s, chunk, inputs, dt_bias, A, p, sums);                   \
  }                                                                                               \
  template <>                                                                                     \
  void scan_forward<S>(const ScanShape& s, const ScanChunk* chunks, int64_t first, int64_t count, \
                       int64_t task, const ScanOperands<S>& operands,                             \
                       const ScanWorkspace<Arithmetic<S>>& work, S* y, int64_t y_row) {           \
    HWY_DYNAMIC_DISPATCH(Forward##name)                                                           \
    (s, chunks, first, count, task, operands, work, y, y_row);                                    \
  }
HYDRAMIX_EXPORT_SCAN_FORWARD(float, F32)
HYDRAMIX_EXPORT_SCAN_FORWARD(double, F64)
HYDRAMIX_EXPORT_SCAN_FORWARD(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
