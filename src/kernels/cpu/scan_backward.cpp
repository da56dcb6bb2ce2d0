// SPDX-License-Identifier: Apache-2.0
// The scan's gradients. Per chunk and head, with E = c enter, W = b weight (docs/math.md),
//
//   Y = M X + E_f H_f + E_b H_b,   H_f' = whole_f H_f + W_f^T X   (H_b' likewise, from the right)
//
// The adjoint states run in the opposite direction. Everything but the states is recomputed.
#include "kernels/cpu/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan_backward.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan_group_gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Gradients of one direction's decays and steps of one chunk and head.
struct StepGradients {
  double* sums;  // (rows + 1): of the prefix sums
  double* dt;    // (T): of dt, at fixed sums
};

// D (N, T) is the gradient of V scaled by `scale` column by column: adds scale D to dV, and returns
// in `column` (T) the sums over N of V D, the gradient of the scale.
template <typename T>
HWY_INLINE void Unscale(const T* HWY_RESTRICT D, const T* HWY_RESTRICT V,
                        const T* HWY_RESTRICT scale, int64_t N, int64_t columns, int64_t ld,
                        T* HWY_RESTRICT dV, T* HWY_RESTRICT column) {
  ForVectors<T>(columns, [&](auto d, int64_t t) HWY_ATTR {
    const auto factor = hn::Load(d, scale + t);
    auto sum = hn::Zero(d);
    for (int64_t n = 0; n < N; ++n) {
      const auto g = hn::Load(d, D + n * ld + t);
      sum = hn::MulAdd(g, hn::Load(d, V + n * ld + t), sum);
      hn::Store(hn::MulAdd(g, factor, hn::Load(d, dV + n * ld + t)), d, dV + n * ld + t);
    }
    hn::Store(sum, d, column + t);
  });
}

template <typename T>
HWY_INLINE double Dot(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t n) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  ForVectors<T>(n, [&](auto, int64_t i)
                       HWY_ATTR { sum = hn::MulAdd(hn::Load(d, a + i), hn::Load(d, b + i), sum); });
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

// dM (rows, T) -> its contributions to the gradients of C B^T, of dt and of the prefix sums.
template <typename T>
HWY_NOINLINE void MatrixGradients(const ChunkShape& s, int64_t rows, const T* HWY_RESTRICT dM,
                                  const T* HWY_RESTRICT decay, const T* HWY_RESTRICT cb,
                                  const T* HWY_RESTRICT dt_f, const T* HWY_RESTRICT dt_b,
                                  T* HWY_RESTRICT dcb, T* HWY_RESTRICT columns_f,
                                  T* HWY_RESTRICT columns_b, const StepGradients& forward,
                                  const StepGradients& backward) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), ld = s.T(), columns = ChunkShape::padded(rows);
  std::memset(columns_f, 0, sizeof(T) * static_cast<size_t>(columns));
  std::memset(columns_b, 0, sizeof(T) * static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t last = i - s.shift;
    auto row_f = hn::Zero(d), row_b = hn::Zero(d);
    for (int64_t j = 0; j < (s.causal() ? i + 1 : columns); j += lanes) {
      const auto g = hn::Mul(hn::Load(d, dM + i * ld + j), hn::Load(d, decay + i * ld + j));
      const auto m = hn::Mul(g, hn::Load(d, cb + i * ld + j));
      const auto add = [&](T* HWY_RESTRICT to, hn::Vec<decltype(d)> v)
                           HWY_ATTR { hn::Store(hn::Add(hn::Load(d, to), v), d, to); };
      if (j + lanes - 1 <= last) {
        const auto dt = hn::Load(d, dt_f + j);
        add(dcb + i * ld + j, hn::Mul(g, dt));
        add(columns_f + j, m);
        row_f = hn::MulAdd(m, dt, row_f);
      } else if (s.causal()) {
        const auto below = hn::FirstN(d, static_cast<size_t>(HWY_MAX(0, last + 1 - j)));
        const auto dt = hn::Load(d, dt_f + j);
        add(dcb + i * ld + j, hn::IfThenElseZero(below, hn::Mul(g, dt)));
        const auto kept = hn::IfThenElseZero(below, m);
        add(columns_f + j, kept);
        row_f = hn::MulAdd(kept, dt, row_f);
      } else if (j > last) {
        const auto dt = hn::Load(d, dt_b + j);
        add(dcb + i * ld + j, hn::Mul(g, dt));
        add(columns_b + j, m);
        row_b = hn::MulAdd(m, dt, row_b);
      } else {
        const auto below = hn::FirstN(d, static_cast<size_t>(last + 1 - j));
        const auto dt = hn::IfThenElse(below, hn::Load(d, dt_f + j), hn::Load(d, dt_b + j));
        add(dcb + i * ld + j, hn::Mul(g, dt));
        add(columns_f + j, hn::IfThenElseZero(below, m));
        add(columns_b + j, hn::IfThenZeroElse(below, m));
        const auto m_dt = hn::Mul(m, dt);
        row_f = hn::Add(row_f, hn::IfThenElseZero(below, m_dt));
        row_b = hn::Add(row_b, hn::IfThenZeroElse(below, m_dt));
      }
    }
    if (s.on[kForward])
      forward.sums[i + 1 - s.shift] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, row_f)));
    if (s.on[kBackward])
      backward.sums[i + s.shift] -= static_cast<double>(hn::GetLane(hn::SumOfLanes(d, row_b)));
  }
  for (int64_t j = 0; j < rows; ++j) {
    forward.dt[j] += static_cast<double>(columns_f[j]);
    forward.sums[j + 1] -= static_cast<double>(dt_f[j]) * static_cast<double>(columns_f[j]);
  }
  for (int64_t j = 0; j < (s.on[kBackward] ? rows : 0); ++j) {
    backward.dt[j] += static_cast<double>(columns_b[j]);
    backward.sums[j] += static_cast<double>(dt_b[j]) * static_cast<double>(columns_b[j]);
  }
}

template <typename S, typename T = Arithmetic<S>>
void Backward(const ScanBackward<S>& p, const ScanWorkspace<T>& work, int64_t sequence,
              int64_t task) {
  const ChunkShape& s = work.shape;
  const ScanInputs<S>& in = p.in;
  const ScanChunk* chunks = work.chunks;
  const int64_t first = work.first_chunk[sequence], last = work.first_chunk[sequence + 1];
  const bool per_token = in.diagonal == nullptr;
  const hn::ScalableTag<T> d;
  const PreparedPlan plan(s);
  const PartialPlan partial_plan(s);
  const HeadRange heads = HeadsOf(s, task);
  const GroupPlan shared(s);
  const int64_t ld = s.T(), Pp = s.Pp(), state = s.state(), g = heads.group;
  const auto if_own = [&](int64_t size) { return s.own_groups() ? size : 0; };
  const int64_t group_size = if_own(shared.size()), partial_size = if_own(partial_plan.size());
  const int64_t memory_size = if_own(GroupMemory<T>::Size(s));
  const int64_t gradients_size = if_own(GroupGradients<T>::Size(s));
  Scratch<T> scratch(3 * s.tile * Pp + 2 * Pp * ld + 3 * s.tile * ld + 2 * s.N * ld + 3 * ld +
                     2 * Decays<T>::Size(ld) + ChunkShape::kTaskHeads * state + group_size +
                     partial_size + memory_size + gradients_size + 32 * ChunkShape::kPad);
  T *X = scratch.Take(s.tile * Pp), *dY = scratch.Take(s.tile * Pp);
  T* dX = scratch.Take(s.tile * Pp);
  T *Xt = scratch.Take(Pp * ld), *dYt = scratch.Take(Pp * ld);
  T *M = scratch.Take(s.tile * ld), *decay = scratch.Take(s.tile * ld);
  T* dM = scratch.Take(s.tile * ld);
  T *scaled = scratch.Take(s.N * ld), *dscaled = scratch.Take(s.N * ld);
  T *column = scratch.Take(ld), *column_b = scratch.Take(ld);
  Decays<T> decays[2] = {{scratch.Take(Decays<T>::Size(ld)), ld},
                         {scratch.Take(Decays<T>::Size(ld)), ld}};
  T* adjoint = scratch.Take(ChunkShape::kTaskHeads * state);  // of the forward states
  T *own_group = scratch.Take(group_size), *own_partial = scratch.Take(partial_size);
  const GroupMemory<T> memory(s, scratch.Take(memory_size));
  const GroupGradients<T> group_gradients(s, scratch.Take(gradients_size));
  Scratch<double> steps(4 * (ld + ChunkShape::kPad + 1) + 8 * ChunkShape::kPad);
  StepGradients gradients[2];
  for (auto& gradient : gradients) gradient = {steps.Take(ld + 1), steps.Take(ld)};
  double dA[ChunkShape::kTaskHeads] = {}, dD[ChunkShape::kTaskHeads] = {};

  const auto saved = [&](int direction, int64_t k, int64_t h) -> const T* {
    return work.states[direction] + (k * s.H + h) * state;
  };
  const auto dstate = [&](int64_t k, int64_t h) { return work.dstates + (k * s.H + h) * state; };
  const auto set_decays = [&](int direction, int64_t k, int64_t h) {
    decays[direction].Set(s, direction, work.sums + k * plan.sums_size() + plan.sums(direction, h),
                          work.prepared + k * plan.size() + plan.dt(direction, h), chunks[k].rows);
  };
  // The block of the group in chunk k.
  const auto group_of = [&](int64_t k) -> const T* {
    if (!s.own_groups()) return work.prepared + k * plan.size() + plan.group(g);
    memory.Fill(in, chunks[k], g, own_group);
    return own_group;
  };
  // to = E^T dY + whole from, the adjoint of a state that entered chunk k; E is left in `scaled`.
  const auto carry = [&](int direction, int64_t k, const T* group, const T* from, T* to,
                         Ahead& ahead) HWY_ATTR {
    const int64_t rows = chunks[k].rows;
    ScaleColumns(group + shared.c(direction), decays[direction].enter, s.N,
                 ChunkShape::padded(rows), ld, scaled);
    Gemm(d, s.N, Pp, rows, Entries<T>{scaled, ld, 1}, dY, Pp,
         Result<T>{.c = to, .ld = Pp, .from = from, .factor = decays[direction].whole}, &ahead);
  };

  if (s.on[kBackward])
    for (int64_t k = first; k + 1 < last; ++k) {
      const T* group = s.own_groups() ? own_group : work.prepared + k * plan.size() + plan.group(g);
      if (s.own_groups()) memory.Queries(in, chunks[k], kBackward, g, own_group);
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        LoadHead(s, chunks[k], p.dy, h, dY);
        Ahead ahead;
        if (h + 1 < heads.end)
          WantHead(ahead, s, chunks[k], p.dy, h + 1);
        else
          WantHead(ahead, s, chunks[k + 1], p.dy, heads.begin);
        set_decays(kBackward, k, h);
        carry(kBackward, k, group, chunks[k].first ? nullptr : dstate(k - 1, h), dstate(k, h),
              ahead);
      }
    }

  for (int64_t k = last - 1; k >= first; --k) {
    const ScanChunk& chunk = chunks[k];
    const int64_t rows = chunk.rows, columns = ChunkShape::padded(rows);
    const T* prepared = work.prepared + k * plan.size();
    const T* group = group_of(k);
    T* partial = s.own_groups() ? own_partial
                                : work.partial + ((heads.task * work.chunk_count + k) * s.G + g) *
                                                     partial_plan.size();
    std::memset(partial, 0, sizeof(T) * static_cast<size_t>(partial_plan.size()));
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      T* gf = adjoint + (h - heads.begin) * state;
      const T* dt[2] = {prepared + plan.dt(kForward, h), prepared + plan.dt(kBackward, h)};
      LoadHead(s, chunk, in.x, h, X);
      LoadHead(s, chunk, p.dy, h, dY);
      Ahead ahead(s.own_groups() ? 40 : 28);
      WantHead(ahead, s, chunk, p.out.x, h);
      if (const bool same = h + 1 < heads.end; same || k > first) {
        if (!same && s.own_groups()) WantGroup(ahead, s, in, chunks[k - 1], g);
        const ScanChunk& next = chunks[same ? k : k - 1];
        WantHead(ahead, s, next, in.x, same ? h + 1 : heads.begin);
        WantHead(ahead, s, next, p.dy, same ? h + 1 : heads.begin);
      }
      Transpose(X, Pp, rows, s.P, Xt, ld);
      Transpose(dY, Pp, rows, s.P, dYt, ld);
      for (const int direction : {kForward, kBackward}) {
        if (direction == kBackward && s.causal()) continue;
        set_decays(direction, k, h);
        std::fill_n(gradients[direction].sums, rows + 1, 0.0);
        std::fill_n(gradients[direction].dt, rows, 0.0);
      }
      ChunkMatrix<T>(s, rows, group + shared.cb(), group + shared.diagonal(), decays[kForward],
                     dt[kForward], decays[kBackward], dt[kBackward], DeltaOf(in, chunk, h), M,
                     decay);

      // Inside the chunk.
      Gemm(d, rows, Pp, rows, Entries<T>{M, 1, ld}, dY, Pp, Result<T>{.c = dX, .ld = Pp}, &ahead,
           s.causal() ? Shape::kUpper : Shape::kFull);
      if (s.causal())
        GemmBelow(rows, s.P, Entries<T>{dY, Pp, 1}, Xt, ld, dM, ld, &ahead);
      else
        Gemm(d, rows, columns, s.P, Entries<T>{dY, Pp, 1}, Xt, ld, Result<T>{.c = dM, .ld = ld},
             &ahead);
      MatrixGradients<T>(s, rows, dM, decay, group + shared.cb(), dt[kForward], dt[kBackward],
                         partial + partial_plan.cb(), column, column_b, gradients[kForward],
                         gradients[kBackward]);
      for (int64_t i = 0; i < rows; ++i) {
        const T diagonal = dM[i * ld + i];
        if (per_token)
          p.out.delta.data[(chunk.begin + i) * p.out.delta.stride + h] = diagonal;
        else
          dD[h - heads.begin] += static_cast<double>(diagonal);
        if (s.shift == 0 && s.on[kBackward]) {
          partial[partial_plan.diagonal() + i] += diagonal * dt[kBackward][i];
          gradients[kBackward].dt[i] +=
              static_cast<double>(diagonal) * static_cast<double>(group[shared.diagonal() + i]);
        }
      }

      for (const int direction : {kForward, kBackward}) {
        if (!s.on[direction]) continue;
        const bool forward = direction == kForward;
        const Decays<T>& decay_of = decays[direction];
        double *dsums = gradients[direction].sums, *ddt = gradients[direction].dt;
        const bool enters = forward ? !chunk.first : !chunk.last;  // a state
        const bool leaves = forward ? !chunk.last : !chunk.first;
        const T* after = forward ? gf : leaves ? dstate(k - 1, h) : nullptr;  // its adjoint
        if (leaves) {
          // X -> the state that leaves: W^T X.
          Gemm(d, rows, Pp, s.N, Entries<T>{group + shared.b(direction), 1, ld}, after, Pp,
               Result<T>{.c = dX, .ld = Pp, .from = dX, .scale = decay_of.weight}, &ahead);
          Gemm(d, s.N, columns, s.P, Entries<T>{after, Pp, 1}, Xt, ld,
               Result<T>{.c = dscaled, .ld = ld});
          Unscale(dscaled, group + shared.b(direction), decay_of.weight, s.N, columns, ld,
                  partial + partial_plan.b(direction), column);
          for (int64_t j = 0; j < rows; ++j) {
            ddt[j] += static_cast<double>(decay_of.leave[j]) * static_cast<double>(column[j]);
            const double dlog =
                static_cast<double>(decay_of.weight[j]) * static_cast<double>(column[j]);
            if (forward) {
              dsums[rows] += dlog;
              dsums[j + 1] -= dlog;
            } else {
              dsums[j] += dlog;
            }
          }
        }
        if (enters && leaves)
          dsums[rows] +=
              static_cast<double>(decay_of.whole) * Dot(after, saved(direction, k, h), state);
        if (enters) {
          // The state that enters -> Y: E H.
          Gemm(d, s.N, columns, s.P, Entries<T>{saved(direction, k, h), Pp, 1}, dYt, ld,
               Result<T>{.c = dscaled, .ld = ld});
          Unscale(dscaled, group + shared.c(direction), decay_of.enter, s.N, columns, ld,
                  partial + partial_plan.c(direction), column);
          for (int64_t i = 0; i < rows; ++i) {
            const double dlog =
                static_cast<double>(decay_of.enter[i]) * static_cast<double>(column[i]);
            if (forward) {
              dsums[i + 1 - s.shift] += dlog;
            } else {
              dsums[rows] += dlog;
              dsums[i + s.shift] -= dlog;
            }
          }
        }

        // Sums of dt A -> dt and A. The sums run from the chunk's first position on.
        T* ddt_out = work.ddt + k * partial_plan.dt_size() + partial_plan.dt(direction, h);
        double later = 0;
        for (int64_t t = rows - 1; t >= 0; --t) {
          later += dsums[t + 1];
          const auto step = static_cast<double>(dt[direction][t]),
                     rate = static_cast<double>(in.A[h]);
          const double dlog = step * rate < kLeastLog<T> ? 0 : later;  // where the step was cut off
          dA[h - heads.begin] += dlog * step;
          ddt_out[t] = static_cast<T>(ddt[t] + dlog * rate);
        }
      }
      StoreHead(s, chunk, dX, h, p.out.x);
      if (s.on[kForward] && !chunk.first)
        carry(kForward, k, group, chunk.last ? nullptr : gf, gf, ahead);
    }
    if (s.own_groups()) group_gradients.Store(p, chunk, g, partial);
  }
  for (int64_t h = heads.begin; h < heads.end; ++h) {
    work.dA[sequence * s.H + h] = dA[h - heads.begin];
    if (!per_token) work.ddiagonal[sequence * s.H + h] = static_cast<T>(dD[h - heads.begin]);
  }
}

// draw (H), the gradient of raw dt, from ddt, that of dt = clamp(softplus(raw + bias)).
template <typename T>
HWY_INLINE void Undiscretise(const ChunkShape& s, const T* HWY_RESTRICT raw,
                             const T* HWY_RESTRICT bias, const T* HWY_RESTRICT ddt,
                             T* HWY_RESTRICT draw) {
  LoadRow(raw, s.H, draw);
  for (int64_t h = 0; h < s.H; ++h) draw[h] += bias[h];
  const ClampedSoftplus softplus(hn::ScalableTag<T>(), s.dt_low, s.dt_high);
  ForVectors<T>(ChunkShape::padded(s.H), [&](auto d, int64_t h) HWY_ATTR {
    hn::Store(softplus.Gradient(hn::Load(d, draw + h), hn::Load(d, ddt + h)), d, draw + h);
  });
}

template <typename S, typename T = Arithmetic<S>>
void Finish(const ScanBackward<S>& p, const ScanWorkspace<T>& work, int64_t k) {
  const ChunkShape& s = work.shape;
  const PartialPlan plan(s);
  const ScanChunk& chunk = work.chunks[k];
  const int64_t size = plan.size();
  Scratch<T> scratch(size + GroupGradients<T>::Size(s) + 2 * ChunkShape::padded(s.H) +
                     4 * ChunkShape::kPad);
  T* sum = scratch.Take(size);
  T *dt = scratch.Take(s.H), *draw = scratch.Take(s.H);
  const GroupGradients<T> memory(s, scratch.Take(GroupGradients<T>::Size(s)));

  for (int64_t g = 0; g < (s.own_groups() ? 0 : s.G); ++g) {
    for (int64_t task = 0; task < s.tasks_per_group(); ++task) {
      const T* from = work.partial + ((task * work.chunk_count + k) * s.G + g) * size;
      if (task == 0)
        std::memcpy(sum, from, sizeof(T) * static_cast<size_t>(size));
      else
        ForVectors<T>(size, [&](auto d, int64_t i) HWY_ATTR {
          hn::Store(hn::Add(hn::Load(d, sum + i), hn::Load(d, from + i)), d, sum + i);
        });
    }
    memory.Store(p, chunk, g, sum);
  }
  const T* ddt = work.ddt + k * plan.dt_size();
  for (const int direction : {kForward, kBackward}) {
    if (!s.on[direction]) continue;
    const auto& in = p.in.direction[direction];
    const auto& to = p.out.direction[direction];
    for (int64_t t = 0; t < chunk.rows; ++t) {
      for (int64_t h = 0; h < s.H; ++h) dt[h] = ddt[plan.dt(direction, h) + t];
      Undiscretise(s, in.dt.data + (chunk.begin + t) * in.dt.stride, p.in.dt_bias, dt, draw);
      StoreRow(draw, s.H, to.dt.data + (chunk.begin + t) * to.dt.stride);
    }
  }
}

#define HYDRAMIX_SCAN_BACKWARD(S, name)                                                   \
  void Backward##name(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                      int64_t sequence, int64_t task) {                                   \
    Backward(p, work, sequence, task);                                                    \
  }                                                                                       \
  void Finish##name(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work,   \
                    int64_t chunk) {                                                      \
    Finish(p, work, chunk);                                                               \
  }
HYDRAMIX_SCAN_BACKWARD(float, F32)
HYDRAMIX_SCAN_BACKWARD(double, F64)
HYDRAMIX_SCAN_BACKWARD(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SCAN_BACKWARD(S, name)                                              \
  HWY_EXPORT(Backward##name);                                                               \
  HWY_EXPORT(Finish##name);                                                                 \
  template <>                                                                               \
  void scan_backward<S>(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                        int64_t sequence, int64_t task) {                                   \
    HWY_DYNAMIC_DISPATCH(Backward##name)(p, work, sequence, task);                          \
  }                                                                                         \
  template <>                                                                               \
  void scan_finish<S>(const ScanBackward<S>& p, const ScanWorkspace<Arithmetic<S>>& work,   \
                      int64_t chunk) {                                                      \
    HWY_DYNAMIC_DISPATCH(Finish##name)(p, work, chunk);                                     \
  }
HYDRAMIX_EXPORT_SCAN_BACKWARD(float, F32)
HYDRAMIX_EXPORT_SCAN_BACKWARD(double, F64)
HYDRAMIX_EXPORT_SCAN_BACKWARD(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
