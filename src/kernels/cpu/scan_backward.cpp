// SPDX-License-Identifier: Apache-2.0
// The scan's gradients. Per chunk and head, with E = c enter, W = b weight (docs/math.md),
//
//   Y = M X + E_f H_f + E_b H_b          H_f' = whole_f H_f + W_f^T X      (H_b' likewise,
//   leftwards)
//
// so that the adjoint states run against the states, and everything is recomputed but those.
#include "kernels/cpu/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan_backward.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Gradients of one direction's decays and steps of one chunk and head.
struct StepGradients {
  double* sums;  // (rows + 1): of the running sums
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

// dM (rows, T) -> what it adds to the gradient of C B^T, of dt and of the running sums.
template <typename T>
HWY_NOINLINE void MatrixGradients(const ScanShape& s, int64_t rows, const T* HWY_RESTRICT dM,
                                  const T* HWY_RESTRICT decay, const T* HWY_RESTRICT cb,
                                  const T* HWY_RESTRICT dt_f, const T* HWY_RESTRICT dt_b,
                                  T* HWY_RESTRICT dcb, T* HWY_RESTRICT columns_f,
                                  T* HWY_RESTRICT columns_b, const StepGradients& forward,
                                  const StepGradients& backward) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), ld = s.T(), columns = ScanShape::padded(rows);
  std::memset(columns_f, 0, sizeof(T) * static_cast<size_t>(columns));
  std::memset(columns_b, 0, sizeof(T) * static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t last = i - s.shift;
    auto row_f = hn::Zero(d), row_b = hn::Zero(d);
    for (int64_t j = 0; j < columns; j += lanes) {
      const auto g = hn::Mul(hn::Load(d, dM + i * ld + j), hn::Load(d, decay + i * ld + j));
      const auto m = hn::Mul(g, hn::Load(d, cb + i * ld + j));
      const auto add = [&](T* HWY_RESTRICT to, hn::Vec<decltype(d)> v)
                           HWY_ATTR { hn::Store(hn::Add(hn::Load(d, to), v), d, to); };
      if (j + lanes - 1 <= last) {
        const auto dt = hn::Load(d, dt_f + j);
        add(dcb + i * ld + j, hn::Mul(g, dt));
        add(columns_f + j, m);
        row_f = hn::MulAdd(m, dt, row_f);
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
    backward.dt[j] += static_cast<double>(columns_b[j]);
    backward.sums[j] += static_cast<double>(dt_b[j]) * static_cast<double>(columns_b[j]);
  }
}

template <typename S, typename T = Arithmetic<S>>
void Backward(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count, int64_t first,
              int64_t count, int64_t sequence, int64_t task, const ScanOperands<S>& in, const T* A,
              const ScanWorkspace<T>& work, const ScanBackward<S>& out) {
  const hn::ScalableTag<T> d;
  const PreparedPlan plan(s);
  const PartialPlan partial_plan(s);
  const HeadRange heads = HeadsOf(s, task);
  const int64_t ld = s.T(), Pp = s.Pp(), state = s.state(), g = heads.group;
  Scratch<T> scratch(3 * s.tile * Pp + 2 * Pp * ld + 3 * s.tile * ld + 2 * s.N * ld + 3 * ld +
                     2 * Decays<T>::Size(ld) + ScanShape::kTaskHeads * state +
                     32 * ScanShape::kPad);
  T *X = scratch.Take(s.tile * Pp), *dY = scratch.Take(s.tile * Pp);
  T* dX = scratch.Take(s.tile * Pp);
  T *Xt = scratch.Take(Pp * ld), *dYt = scratch.Take(Pp * ld);
  T *M = scratch.Take(s.tile * ld), *decay = scratch.Take(s.tile * ld);
  T* dM = scratch.Take(s.tile * ld);
  T *scaled = scratch.Take(s.N * ld), *dscaled = scratch.Take(s.N * ld);
  T *column = scratch.Take(ld), *column_b = scratch.Take(ld);
  Decays<T> decays[2] = {{scratch.Take(Decays<T>::Size(ld)), ld},
                         {scratch.Take(Decays<T>::Size(ld)), ld}};
  T* adjoint = scratch.Take(ScanShape::kTaskHeads * state);  // of the forward states
  Scratch<double> steps(4 * (ld + ScanShape::kPad + 1) + 8 * ScanShape::kPad);
  StepGradients gradients[2];
  for (auto& gradient : gradients) gradient = {steps.Take(ld + 1), steps.Take(ld)};
  double dA[ScanShape::kTaskHeads] = {}, dD[ScanShape::kTaskHeads] = {};

  const auto saved = [&](int direction, int64_t k, int64_t h) -> const T* {
    return work.states[direction] + (k * s.H + h) * state;
  };
  const auto dstate = [&](int64_t k, int64_t h) { return out.dstates + (k * s.H + h) * state; };
  const auto set_decays = [&](int direction, int64_t k, int64_t h) {
    decays[direction].Set(s, direction, work.sums + k * plan.sums_size() + plan.sums(direction, h),
                          work.prepared + k * plan.size() + plan.dt(direction, h), chunks[k].rows);
  };
  const auto want = [&](Ahead& ahead, const S* rows, int64_t row, int64_t k, int64_t h) {
    const int64_t bytes = sizeof(S);
    ahead.Want(rows + chunks[k].begin * row + h * s.P, chunks[k].rows, row * bytes, s.P * bytes);
  };
  // to = E^T dY + whole from, the adjoint of a state that entered chunk k; E is left in `scaled`.
  const auto carry = [&](int direction, int64_t k, const T* from, T* to, Ahead& ahead) HWY_ATTR {
    const int64_t rows = chunks[k].rows;
    ScaleColumns(work.prepared + k * plan.size() + plan.c(direction, g), decays[direction].enter,
                 s.N, ScanShape::padded(rows), ld, scaled);
    Gemm(d, s.N, Pp, rows, Entries<T>{scaled, ld, 1}, dY, Pp,
         Result<T>{.c = to, .ld = Pp, .from = from, .factor = decays[direction].whole}, &ahead);
  };

  if (s.on[kBackward])
    for (int64_t k = first; k + 1 < first + count; ++k)
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        LoadHead(s, chunks[k], out.dy, out.dy_row, h, dY);
        Ahead ahead;
        if (h + 1 < heads.end)
          want(ahead, out.dy, out.dy_row, k, h + 1);
        else
          want(ahead, out.dy, out.dy_row, k + 1, heads.begin);
        set_decays(kBackward, k, h);
        carry(kBackward, k, chunks[k].first ? nullptr : dstate(k - 1, h), dstate(k, h), ahead);
      }

  for (int64_t k = first + count - 1; k >= first; --k) {
    const ScanChunk& chunk = chunks[k];
    const int64_t rows = chunk.rows, columns = ScanShape::padded(rows);
    const T* prepared = work.prepared + k * plan.size();
    T* partial = out.partial + ((heads.task * chunk_count + k) * s.G + g) * partial_plan.size();
    std::memset(partial, 0, sizeof(T) * static_cast<size_t>(partial_plan.size()));
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      T* gf = adjoint + (h - heads.begin) * state;
      const T* dt[2] = {prepared + plan.dt(kForward, h), prepared + plan.dt(kBackward, h)};
      const T* delta = in.delta + chunk.begin * in.delta_row + h;
      LoadHead(s, chunk, in.x, in.x_row, h, X);
      LoadHead(s, chunk, out.dy, out.dy_row, h, dY);
      Ahead ahead;
      want(ahead, out.dx, out.dx_row, k, h);
      if (const bool same = h + 1 < heads.end; same || k > first) {
        want(ahead, in.x, in.x_row, same ? k : k - 1, same ? h + 1 : heads.begin);
        want(ahead, out.dy, out.dy_row, same ? k : k - 1, same ? h + 1 : heads.begin);
      }
      Transpose(X, Pp, rows, s.P, Xt, ld);
      Transpose(dY, Pp, rows, s.P, dYt, ld);
      for (const int direction : {kForward, kBackward}) {
        set_decays(direction, k, h);
        std::fill_n(gradients[direction].sums, rows + 1, 0.0);
        std::fill_n(gradients[direction].dt, rows, 0.0);
      }
      ChunkMatrix<T>(s, rows, prepared + plan.cb(g), prepared + plan.diagonal(g), decays[kForward],
                     dt[kForward], decays[kBackward], dt[kBackward], delta, in.delta_row, M, decay);

      // Inside the chunk.
      Gemm(d, rows, Pp, rows, Entries<T>{M, 1, ld}, dY, Pp, Result<T>{.c = dX, .ld = Pp}, &ahead);
      Gemm(d, rows, columns, s.P, Entries<T>{dY, Pp, 1}, Xt, ld, Result<T>{.c = dM, .ld = ld},
           &ahead);
      MatrixGradients<T>(s, rows, dM, decay, prepared + plan.cb(g), dt[kForward], dt[kBackward],
                         partial + partial_plan.cb(), column, column_b, gradients[kForward],
                         gradients[kBackward]);
      for (int64_t i = 0; i < rows; ++i) {
        const T diagonal = dM[i * ld + i];
        if (in.delta_row == 0)
          dD[h - heads.begin] += static_cast<double>(diagonal);
        else
          out.ddelta[(chunk.begin + i) * s.H + h] = diagonal;
        if (s.shift == 0 && s.on[kBackward]) {
          partial[partial_plan.diagonal() + i] += diagonal * dt[kBackward][i];
          gradients[kBackward].dt[i] +=
              static_cast<double>(diagonal) * static_cast<double>(prepared[plan.diagonal(g) + i]);
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
          Gemm(d, rows, Pp, s.N, Entries<T>{prepared + plan.b(direction, g), 1, ld}, after, Pp,
               Result<T>{.c = dX, .ld = Pp, .from = dX, .scale = decay_of.weight}, &ahead);
          Gemm(d, s.N, columns, s.P, Entries<T>{after, Pp, 1}, Xt, ld,
               Result<T>{.c = dscaled, .ld = ld});
          Unscale(dscaled, prepared + plan.b(direction, g), decay_of.weight, s.N, columns, ld,
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
          Unscale(dscaled, prepared + plan.c(direction, g), decay_of.enter, s.N, columns, ld,
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

        // Sums of dt A -> dt and A. The sums run from the chunk's first place on.
        T* ddt_out = out.ddt + k * partial_plan.dt_size() + partial_plan.dt(direction, h);
        double later = 0;
        for (int64_t t = rows - 1; t >= 0; --t) {
          later += dsums[t + 1];
          const auto step = static_cast<double>(dt[direction][t]), rate = static_cast<double>(A[h]);
          const double dlog = step * rate < kLeastLog<T> ? 0 : later;  // cut off there
          dA[h - heads.begin] += dlog * step;
          ddt_out[t] = static_cast<T>(ddt[t] + dlog * rate);
        }
      }
      StoreHead(s, chunk, dX, out.dx_row, h, out.dx);
      if (s.on[kForward] && !chunk.first) carry(kForward, k, chunk.last ? nullptr : gf, gf, ahead);
    }
  }
  for (int64_t h = heads.begin; h < heads.end; ++h) {
    out.dA[sequence * s.H + h] = dA[h - heads.begin];
    if (in.delta_row == 0) out.ddelta[sequence * s.H + h] = static_cast<T>(dD[h - heads.begin]);
  }
}

// raw gradient (H) = that of dt times the derivative of clamp(softplus(raw + bias)).
template <typename T>
HWY_INLINE void Undiscretise(const ScanShape& s, const T* HWY_RESTRICT raw,
                             const T* HWY_RESTRICT bias, const T* HWY_RESTRICT dt,
                             T* HWY_RESTRICT derivative) {
  LoadRow(raw, s.H, derivative);
  for (int64_t h = 0; h < s.H; ++h) derivative[h] += bias[h];
  ForVectors<T>(ScanShape::padded(s.H), [&](auto d, int64_t h) HWY_ATTR {
    const auto v = hn::Load(d, derivative + h), most = hn::Set(d, T{20}), one = hn::Set(d, T{1});
    const auto e = hn::Exp(d, hn::Min(v, most));
    const auto slope = hn::IfThenElse(hn::Gt(v, most), one, hn::Div(e, hn::Add(e, one)));
    hn::Store(hn::IfThenElse(hn::Eq(v, v), slope, v), d, derivative + h);
  });
  for (int64_t h = 0; h < s.H; ++h) derivative[h] *= dt[h];
  if (s.dt_low <= 0 && std::isinf(s.dt_high)) return;
  for (int64_t h = 0; h < s.H; ++h) {
    const T v = raw[h] + bias[h];
    const T soft = v > T{20} ? v : std::log1p(std::exp(v));
    const bool clamped =
        (s.dt_low > 0 && soft < static_cast<T>(s.dt_low)) || soft > static_cast<T>(s.dt_high);
    if (clamped) derivative[h] = 0;
  }
}

template <typename S, typename T = Arithmetic<S>>
void Finish(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count, int64_t k,
            const ScanInputs<S> inputs[2], const T* dt_bias, const T* prepared, const T* partial,
            const T* ddt, const ScanGradients<S> gradients[2]) {
  const hn::ScalableTag<T> d;
  const PreparedPlan plan(s);
  const PartialPlan partial_plan(s);
  const ScanChunk& chunk = chunks[k];
  const int64_t rows = chunk.rows, ld = s.T(), columns = ScanShape::padded(rows);
  const int64_t Hp = ScanShape::padded(s.H), size = partial_plan.size();
  prepared += k * plan.size();
  ddt += k * partial_plan.dt_size();
  Scratch<T> scratch(ScanShape::padded(size) + 2 * s.tile * ld + s.N + 2 * Hp +
                     8 * ScanShape::kPad);
  T* sum = scratch.Take(size);
  T *half = scratch.Take(s.tile * ld), *half_t = scratch.Take(s.tile * ld);
  T *vector = scratch.Take(s.N), *dt = scratch.Take(s.H), *derivative = scratch.Take(s.H);

  for (int64_t g = 0; g < s.G; ++g) {
    for (int64_t task = 0; task < s.tasks_per_group(); ++task) {
      const T* from = partial + ((task * chunk_count + k) * s.G + g) * size;
      if (task == 0)
        std::memcpy(sum, from, sizeof(T) * static_cast<size_t>(size));
      else
        ForVectors<T>(size, [&](auto, int64_t i) HWY_ATTR {
          hn::Store(hn::Add(hn::Load(d, sum + i), hn::Load(d, from + i)), d, sum + i);
        });
    }
    for (const int direction : {kForward, kBackward}) {
      if (!s.on[direction]) continue;
      const bool forward = direction == kForward;
      const T *b = prepared + plan.b(direction, g), *c = prepared + plan.c(direction, g);
      T *db = sum + partial_plan.b(direction), *dc = sum + partial_plan.c(direction);
      // Its own triangle of d(C B^T), and that transposed.
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const bool own = forward ? j <= i - s.shift : j > i - s.shift && j != i;
          half[i * ld + j] = own ? sum[partial_plan.cb() + i * ld + j] : T{0};
        }
      if (!forward && s.shift == 0)
        for (int64_t i = 0; i < rows; ++i) half[i * ld + i] = sum[partial_plan.diagonal() + i];
      Transpose(half, ld, rows, rows, half_t, ld);
      Gemm(d, s.N, columns, rows, Entries<T>{c, ld, 1}, half, ld,
           Result<T>{.c = db, .ld = ld, .from = db});
      Gemm(d, s.N, columns, rows, Entries<T>{b, ld, 1}, half_t, ld,
           Result<T>{.c = dc, .ld = ld, .from = dc});

      const auto& to = gradients[direction];
      const auto store = [&](const T* from, int64_t t, S* at) {
        for (int64_t n = 0; n < s.N; ++n) vector[n] = from == nullptr ? T{0} : from[n * ld + t];
        StoreRow(vector, s.N, at);
      };
      for (int64_t t = 0; t < rows; ++t)
        store(db, t, to.b + (chunk.begin + t) * to.b_row + g * s.N);
      // Row t read c one place before or behind it; c at the far end of the sequence was not read.
      const int64_t offset = forward ? -s.shift : s.shift;
      for (int64_t t = 0; t < rows; ++t) {
        const bool outside = (chunk.first && t + offset < 0) || (chunk.last && t + offset >= rows);
        if (!outside) store(dc, t, to.c + (chunk.begin + t + offset) * to.c_row + g * s.N);
      }
      if (s.shift == 1 && (forward ? chunk.last : chunk.first)) {
        const int64_t unread = forward ? chunk.begin + rows - 1 : chunk.begin;
        store(nullptr, 0, to.c + unread * to.c_row + g * s.N);
      }
    }
  }
  for (const int direction : {kForward, kBackward}) {
    if (!s.on[direction]) continue;
    const auto& in = inputs[direction];
    const auto& to = gradients[direction];
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t h = 0; h < s.H; ++h) dt[h] = ddt[partial_plan.dt(direction, h) + t];
      Undiscretise(s, in.dt + (chunk.begin + t) * in.dt_row, dt_bias, dt, derivative);
      StoreRow(derivative, s.H, to.dt + (chunk.begin + t) * to.dt_row);
    }
  }
}

#define HYDRAMIX_SCAN_BACKWARD(S, name)                                                           \
  void Backward##name(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count,           \
                      int64_t first, int64_t count, int64_t sequence, int64_t task,               \
                      const ScanOperands<S>& in, const Arithmetic<S>* A,                          \
                      const ScanWorkspace<Arithmetic<S>>& work, const ScanBackward<S>& out) {     \
    Backward<S>(s, chunks, chunk_count, first, count, sequence, task, in, A, work, out);          \
  }                                                                                               \
  void Finish##name(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count,             \
                    int64_t chunk, const ScanInputs<S> inputs[2], const Arithmetic<S>* dt_bias,   \
                    const Arithmetic<S>* prepared, const Arithmetic<S>* partial,                  \
                    const Arithmetic<S>* ddt, const ScanGradients<S> gradients[2]) {              \
    Finish<S>(s, chunks, chunk_count, chunk, inputs, dt_bias, prepared, partial, ddt, gradients); \
  }
HYDRAMIX_SCAN_BACKWARD(float, F32)
HYDRAMIX_SCAN_BACKWARD(double, F64)
HYDRAMIX_SCAN_BACKWARD(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SCAN_BACKWARD(S, name)                                                    \
  HWY_EXPORT(Backward##name);                                                                     \
  HWY_EXPORT(Finish##name);                                                                       \
  template <>                                                                                     \
  void scan_backward<S>(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count,         \
                        int64_t first, int64_t count, int64_t sequence, int64_t task,             \
                        const ScanOperands<S>& in, const Arithmetic<S>* A,                        \
                        const ScanWorkspace<Arithmetic<S>>& work, const ScanBackward<S>& out) {   \
    HWY_DYNAMIC_DISPATCH(Backward##name)                                                          \
    (s, chunks, chunk_count, first, count, sequence, task, in, A, work, out);                     \
  }                                                                                               \
  template <>                                                                                     \
  void scan_finish<S>(const ScanShape& s, const ScanChunk* chunks, int64_t chunk_count,           \
                      int64_t chunk, const ScanInputs<S> inputs[2], const Arithmetic<S>* dt_bias, \
                      const Arithmetic<S>* prepared, const Arithmetic<S>* partial,                \
                      const Arithmetic<S>* ddt, const ScanGradients<S> gradients[2]) {            \
    HWY_DYNAMIC_DISPATCH(Finish##name)                                                            \
    (s, chunks, chunk_count, chunk, inputs, dt_bias, prepared, partial, ddt, gradients);          \
  }
HYDRAMIX_EXPORT_SCAN_BACKWARD(float, F32)
HYDRAMIX_EXPORT_SCAN_BACKWARD(double, F64)
HYDRAMIX_EXPORT_SCAN_BACKWARD(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
