// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan_forward.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/scan_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// dt (H) = clamp(softplus(raw + bias)).
template <typename T>
HWY_INLINE void Discretise(const ChunkShape& s, const T* HWY_RESTRICT raw,
                           const T* HWY_RESTRICT bias, T* HWY_RESTRICT dt) {
  LoadRow(raw, s.H, dt);
  for (int64_t h = 0; h < s.H; ++h) dt[h] += bias[h];
  const ClampedSoftplus softplus(hn::ScalableTag<T>(), s.dt_low, s.dt_high);
  ForVectors<T>(ChunkShape::padded(s.H), [&](auto d, int64_t h) HWY_ATTR {
    hn::Store(softplus(hn::Load(d, dt + h)), d, dt + h);
  });
}

template <typename S, typename T = Arithmetic<S>>
void Prepare(const ScanForward<S>& p, const ScanWorkspace<T>& work, int64_t k) {
  const ChunkShape& s = work.shape;
  const ScanChunk& chunk = work.chunks[k];
  const PreparedPlan plan(s);
  T* prepared = work.prepared + k * plan.size();
  double* sums = work.sums + k * plan.sums_size();
  const int64_t rows = chunk.rows, ld = s.T(), columns = ChunkShape::padded(rows);
  Scratch<T> scratch(ChunkShape::padded(s.H) + GroupMemory<T>::Size(s));
  T* row = scratch.Take(s.H);

  for (const int direction : {kForward, kBackward}) {
    T* dt = prepared + plan.dt(direction, 0);
    double* sum = sums + plan.sums(direction, 0);
    if (!s.on[direction]) {
      std::memset(dt, 0, sizeof(T) * static_cast<size_t>(s.H * ld));
      std::memset(sum, 0, sizeof(double) * static_cast<size_t>(s.H * (ld + 1)));
      continue;
    }
    const auto& in = p.in.direction[direction];
    for (int64_t h = 0; h < s.H; ++h) sum[h * (ld + 1)] = 0;
    for (int64_t t = 0; t < rows; ++t) {
      Discretise(s, in.dt.data + (chunk.begin + t) * in.dt.stride, p.in.dt_bias, row);
      for (int64_t h = 0; h < s.H; ++h) {
        dt[h * ld + t] = row[h];
        const double step = static_cast<double>(row[h]) * static_cast<double>(p.in.A[h]);
        double* at = sum + h * (ld + 1) + t;
        at[1] = at[0] + (step < kLeastLog<T> ? kLeastLog<T> : step);
      }
    }
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t t = rows; t < columns; ++t) dt[h * ld + t] = 0;
  }

  if (s.own_groups()) return;
  const GroupMemory<T> memory(s, scratch.Take(GroupMemory<T>::Size(s)));
  for (int64_t g = 0; g < s.G; ++g) memory.Fill(p.in, chunk, g, prepared + plan.group(g));
}

template <typename S, typename T = Arithmetic<S>>
void Forward(const ScanForward<S>& p, const ScanWorkspace<T>& work, int64_t sequence,
             int64_t task) {
  const ChunkShape& s = work.shape;
  const ScanInputs<S>& in = p.in;
  const ScanChunk* chunks = work.chunks;
  const int64_t first = work.first_chunk[sequence], last = work.first_chunk[sequence + 1];
  const hn::ScalableTag<T> d;
  const PreparedPlan plan(s);
  const HeadRange heads = HeadsOf(s, task);
  const GroupPlan shared(s);
  const int64_t ld = s.T(), Pp = s.Pp(), state = s.state(), g = heads.group;
  const int64_t group_size = s.own_groups() ? shared.size() + GroupMemory<T>::Size(s) : 0;
  Scratch<T> scratch(2 * s.tile * Pp + s.tile * ld + s.N * ld + 2 * Decays<T>::Size(ld) +
                     ChunkShape::kTaskHeads * state + group_size + 16 * ChunkShape::kPad);
  T *X = scratch.Take(s.tile * Pp), *Y = scratch.Take(s.tile * Pp);
  T *M = scratch.Take(s.tile * ld), *scaled = scratch.Take(s.N * ld);
  Decays<T> forward(scratch.Take(Decays<T>::Size(ld)), ld);
  Decays<T> backward(scratch.Take(Decays<T>::Size(ld)), ld);
  T* running = scratch.Take(ChunkShape::kTaskHeads * state);
  T* own_group = scratch.Take(group_size);
  const GroupMemory<T> memory(s, own_group + shared.size());

  const auto forward_state = [&](int64_t k, int64_t h) {
    return work.states[kForward] != nullptr ? work.states[kForward] + (k * s.H + h) * state
                                            : running + (h - heads.begin) * state;
  };
  const auto backward_state = [&](int64_t k, int64_t h) {
    return work.states[kBackward] + (k * s.H + h) * state;
  };
  const auto want_state = [&](Ahead& ahead, const T* state_of_head) {
    ahead.Want(state_of_head, 1, 0, state * static_cast<int64_t>(sizeof(T)));
  };
  // next = decays.whole before + (weight b)^T X; before is null if no state entered.
  const auto carry = [&](const Decays<T>& decays, const T* b, int64_t rows, const T* before,
                         T* next, Ahead& ahead) HWY_ATTR {
    ScaleColumns(b, decays.weight, s.N, ChunkShape::padded(rows), ld, scaled);
    Gemm(d, s.N, Pp, rows, Entries<T>{scaled, ld, 1}, X, Pp,
         Result<T>{.c = next, .ld = Pp, .from = before, .factor = decays.whole}, &ahead);
  };

  if (s.on[kBackward])
    for (int64_t k = last - 1; k > first; --k) {
      const ScanChunk& chunk = chunks[k];
      const T* prepared = work.prepared + k * plan.size();
      const T* group = s.own_groups() ? own_group : prepared + plan.group(g);
      if (s.own_groups()) memory.Keys(in, chunk, kBackward, g, own_group);
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        LoadHead(s, chunk, in.x, h, X);
        Ahead ahead;
        if (h + 1 < heads.end) {
          WantHead(ahead, s, chunk, in.x, h + 1);
          want_state(ahead, backward_state(k - 1, h + 1));
        } else {
          WantHead(ahead, s, chunks[k - 1], in.x, heads.begin);
        }
        backward.Set(s, kBackward, work.sums + k * plan.sums_size() + plan.sums(kBackward, h),
                     prepared + plan.dt(kBackward, h), chunk.rows);
        carry(backward, group + shared.b(kBackward), chunk.rows,
              chunk.last ? nullptr : backward_state(k, h), backward_state(k - 1, h), ahead);
      }
    }

  for (int64_t k = first; k < last; ++k) {
    const ScanChunk& chunk = chunks[k];
    const int64_t rows = chunk.rows;
    const T* prepared = work.prepared + k * plan.size();
    const T* group = s.own_groups() ? own_group : prepared + plan.group(g);
    const double* sums = work.sums + k * plan.sums_size();
    if (s.own_groups()) memory.Fill(in, chunk, g, own_group);
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      const T *dt_f = prepared + plan.dt(kForward, h), *dt_b = prepared + plan.dt(kBackward, h);
      LoadHead(s, chunk, in.x, h, X);
      Ahead ahead(s.own_groups() ? 40 : 28);
      WantHead(ahead, s, chunk, p.y, h);
      if (const bool same = h + 1 < heads.end; same || !chunk.last) {
        if (!same && s.own_groups()) WantGroup(ahead, s, in, chunks[k + 1], g);
        const int64_t next = same ? k : k + 1, head = same ? h + 1 : heads.begin;
        WantHead(ahead, s, chunks[next], in.x, head);
        if (s.on[kBackward] && !chunks[next].last) want_state(ahead, backward_state(next, head));
      }
      forward.Set(s, kForward, sums + plan.sums(kForward, h), dt_f, rows);
      if (!s.causal()) backward.Set(s, kBackward, sums + plan.sums(kBackward, h), dt_b, rows);
      ChunkMatrix<T>(s, rows, group + shared.cb(), group + shared.diagonal(), forward, dt_f,
                     backward, dt_b, DeltaOf(in, chunk, h), M, nullptr);
      Gemm(d, rows, Pp, rows, Entries<T>{M, ld, 1}, X, Pp, Result<T>{.c = Y, .ld = Pp}, &ahead,
           s.causal() ? Shape::kLower : Shape::kFull);
      // Y += diag(enter) C H, with H the state that enters.
      const auto enter = [&](int direction, const Decays<T>& decays, const T* H) HWY_ATTR {
        Gemm(d, rows, Pp, s.N, Entries<T>{group + shared.c(direction), 1, ld}, H, Pp,
             Result<T>{.c = Y, .ld = Pp, .from = Y, .scale = decays.enter}, &ahead);
      };
      if (s.on[kForward] && !chunk.first) enter(kForward, forward, forward_state(k, h));
      if (s.on[kBackward] && !chunk.last) enter(kBackward, backward, backward_state(k, h));
      StoreHead(s, chunk, Y, h, p.y);
      if (s.on[kForward] && !chunk.last)
        carry(forward, group + shared.b(kForward), rows,
              chunk.first ? nullptr : forward_state(k, h), forward_state(k + 1, h), ahead);
    }
  }
}

#define HYDRAMIX_SCAN_FORWARD(S, name)                                                  \
  void Prepare##name(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                     int64_t chunk) {                                                   \
    Prepare(p, work, chunk);                                                            \
  }                                                                                     \
  void Forward##name(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                     int64_t sequence, int64_t task) {                                  \
    Forward(p, work, sequence, task);                                                   \
  }
HYDRAMIX_SCAN_FORWARD(float, F32)
HYDRAMIX_SCAN_FORWARD(double, F64)
HYDRAMIX_SCAN_FORWARD(BFloat16, BF16)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SCAN_FORWARD(S, name)                                             \
  HWY_EXPORT(Prepare##name);                                                              \
  HWY_EXPORT(Forward##name);                                                              \
  template <>                                                                             \
  void scan_prepare<S>(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                       int64_t chunk) {                                                   \
    HWY_DYNAMIC_DISPATCH(Prepare##name)(p, work, chunk);                                  \
  }                                                                                       \
  template <>                                                                             \
  void scan_forward<S>(const ScanForward<S>& p, const ScanWorkspace<Arithmetic<S>>& work, \
                       int64_t sequence, int64_t task) {                                  \
    HWY_DYNAMIC_DISPATCH(Forward##name)(p, work, sequence, task);                         \
  }
HYDRAMIX_EXPORT_SCAN_FORWARD(float, F32)
HYDRAMIX_EXPORT_SCAN_FORWARD(double, F64)
HYDRAMIX_EXPORT_SCAN_FORWARD(BFloat16, BF16)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
