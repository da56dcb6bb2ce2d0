// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/selective_scan.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/selective_scan.cpp"
#include <hwy/foreach_target.h>

#include <cstring>

#include <hwy/cache_control.h>
#include "kernels/cpu/decay-inl.h"
#include "kernels/cpu/lane_sums-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace hydramix::kernels::HWY_NAMESPACE {

// Lanes of one vector: its first channel, and how many of them there are.
struct SelectiveLanes {
  int64_t channel, count;
};

struct SelectiveDistance {
  int64_t tokens, channels;
};

template <typename T>
HWY_INLINE const T* TokenRow(const StridedRows<const T>& rows, int64_t t) {
  return rows.data + t * rows.stride;
}

// One vector of channels over the places [begin, begin + rows). h (N, lanes) is the state before
// and after. `ahead` is the distance, in tokens and channels, of the entries to prefetch: rows are
// far apart, and the hardware does not prefetch them.
template <typename T>
HWY_NOINLINE void SelectiveWalk(const SelectiveForward<T>& p, int64_t begin, int64_t rows,
                                SelectiveLanes lanes_of, SelectiveDistance ahead,
                                T* HWY_RESTRICT h) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), N = p.shape.N, C = p.shape.padded(), at = lanes_of.channel;
  const T* HWY_RESTRICT A = p.in.A + at;
  const auto skip = hn::Load(d, p.in.D + at);
  for (int64_t t = begin; t < begin + rows; ++t) {
    const int64_t next = t + ahead.tokens, channel = at + ahead.channels;
    hwy::Prefetch(TokenRow(p.in.x, next) + channel);
    hwy::Prefetch(TokenRow(p.in.dt, next) + channel);
    hwy::Prefetch(p.y.data + next * p.y.stride + channel);
    const auto x = LoadN(d, TokenRow(p.in.x, t) + at, lanes_of.count);
    const auto dt = LoadN(d, TokenRow(p.in.dt, t) + at, lanes_of.count);
    const T *HWY_RESTRICT b = TokenRow(p.in.b, t), *HWY_RESTRICT c = TokenRow(p.in.c, t);
    const auto dx = hn::Mul(dt, x);
    auto y = hn::Mul(skip, x);
    for (int64_t n = 0; n < N; ++n) {
      const auto decay = Decay(d, dt, hn::Load(d, A + n * C));
      const auto state =
          hn::MulAdd(decay, hn::Load(d, h + n * lanes), hn::Mul(dx, hn::Set(d, b[n])));
      hn::Store(state, d, h + n * lanes);
      y = hn::MulAdd(hn::Set(d, c[n]), state, y);
    }
    StoreN(y, d, p.y.data + t * p.y.stride + at, lanes_of.count);
  }
}

template <typename T>
void SelectiveForwardTasks(const SelectiveForward<T>& p, const SelectiveRange& range,
                           const SelectiveTasks& tasks) {
  constexpr int64_t kTask = SelectiveShape::kTask;
  const SelectiveShape& s = p.shape;
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), first = tasks.begin * kTask, last = tasks.end * kTask;
  const int64_t end = HWY_MIN(last, s.C);
  const auto memory = make_workspace<T>((last - first) * s.N);
  std::memset(memory.get(), 0, sizeof(T) * static_cast<size_t>((last - first) * s.N));
  int64_t k = range.first_chunk;
  for (int64_t begin = range.begin; begin < range.end; begin += s.tile, ++k) {
    const int64_t rows = HWY_MIN(s.tile, range.end - begin);
    for (int64_t at = first; at < last; at += lanes) {
      T* h = memory.get() + (at - first) * s.N;  // (N, lanes)
      if (p.states != nullptr) {
        T* to = p.states + (k * s.tasks() + at / kTask) * s.N * kTask + at % kTask;
        // Past the cache: the backward pass needs them much later.
        for (int64_t n = 0; n < s.N; ++n) hn::Stream(hn::Load(d, h + n * lanes), d, to + n * kTask);
      }
      if (at >= end) continue;
      SelectiveDistance ahead{0, 0};
      if (at + lanes < end)
        ahead.channels = lanes;
      else if (begin + s.tile + rows <= range.end)
        ahead = {s.tile, first - at};
      SelectiveWalk(p, begin, rows, {at, HWY_MIN(lanes, s.C - at)}, ahead, h);
    }
  }
  hwy::FlushStream();
}

// The backward pass works on blocks of V vectors of channels and S states. V S independent chains
// of operations hide the latency of each. Sums over states stay in registers for S states, those
// over channels for V vectors. Four chains and what they share take 30 registers.
constexpr int kBlockVectors = 2, kBlockStates = HWY_TARGET <= HWY_AVX3 ? 2 : 1;

// The fields kept per token, a vector of channels each. kDx holds dt x.
enum SelectiveField { kDt, kDx, kDy, kDdx, kDdt, kFields };

// Scratch memory of a backward task. Values that are used together are stored together: separate
// arrays, whose sizes are powers of two, would share a few sets of the L1 cache.
template <typename T>
struct SelectiveScratch {
  T* tokens;   // (blocks, tile, kFields, V, lanes)
  T* kept;     // (tile, 2, V, S, lanes): the decays, and the states before them
  T* sums;     // (tile, 2, S, lanes): db and dc, summed over vectors
  T* A;        // (N, channels)
  T *dh, *dA;  // likewise; run on from chunk to chunk
  T* dD;       // (channels), likewise
};

// A block of a chunk.
template <typename T>
struct SelectiveBlock {
  int64_t begin, rows;                // tokens of the chunk
  int64_t first, vector;              // first channel of the task; vector in it
  int64_t n;                          // first state
  const T* before;                    // (N, channels): the states that enter the chunk; or null
  const StridedRows<const T>* ahead;  // two, to prefetch a line of each with every token
};

// The states of a block forwards, then their gradients backwards. The first states of a channel
// load its tokens, the last ones store its gradients, so that arithmetic hides the time of both.
template <int S, bool kFirst, bool kLast, typename T>
HWY_NOINLINE void SelectiveStates(const SelectiveBackward<T>& p, const SelectiveBlock<T>& block,
                                  const SelectiveScratch<T>& work) {
  constexpr int V = kBlockVectors;
  const hn::ScalableTag<T> d;
  using Vector = hn::Vec<decltype(d)>;
  const int64_t lanes = hn::Lanes(d), channel = block.vector * lanes, rows = block.rows;
  const int64_t at = block.first + channel, n = block.n;
  const int64_t token_size = lanes * kFields * V, kept_size = lanes * 2 * V * S;
  const int64_t sums_size = lanes * 2 * S;
  // The entries of a row that vector i has.
  const auto of_row = [&](const auto& tokens, int64_t t, int i) {
    return tokens.data + (block.begin + t) * tokens.stride + at + i * lanes;
  };
  const auto count = [&](int i) { return p.shape.C - at - i * lanes; };
  T* HWY_RESTRICT token = work.tokens + block.vector / V * p.shape.tile * token_size;
  T *HWY_RESTRICT kept = work.kept, *HWY_RESTRICT sums = work.sums;
  const T *HWY_RESTRICT b = TokenRow(p.in.b, block.begin) + n,
                        *HWY_RESTRICT c = TokenRow(p.in.c, block.begin) + n;
  Vector rate[V][S], state[V][S], g[V][S], drate[V][S];
  HWY_UNROLL(2)
  for (int i = 0; i < V; ++i) HWY_UNROLL(2)
  for (int j = 0; j < S; ++j) {
    const int64_t place = (n + j) * SelectiveShape::kTask + channel + i * lanes;
    rate[i][j] = hn::Load(d, work.A + place);
    state[i][j] = block.before == nullptr ? hn::Zero(d) : hn::Load(d, block.before + place);
    g[i][j] = hn::Load(d, work.dh + place);
    drate[i][j] = hn::Load(d, work.dA + place);
  }
  for (int64_t t = 0; t < rows; ++t) {
    HWY_UNROLL(2)
    for (int i = 0; i < V; ++i) {
      const auto field = [&](int f) { return token + (f * V + i) * lanes; };
      if constexpr (kFirst) {
        const auto loaded = LoadN(d, of_row(p.in.dt, t, i), count(i));
        hn::Store(loaded, d, field(kDt));
        hn::Store(hn::Mul(loaded, LoadN(d, of_row(p.in.x, t, i), count(i))), d, field(kDx));
      }
      const auto dt = hn::Load(d, field(kDt)), dx = hn::Load(d, field(kDx));
      HWY_UNROLL(2)
      for (int j = 0; j < S; ++j) {
        const auto decay = Decay(d, dt, rate[i][j]);
        hn::Store(decay, d, kept + (i * S + j) * lanes);
        hn::Store(state[i][j], d, kept + ((V + i) * S + j) * lanes);
        state[i][j] = hn::MulAdd(decay, state[i][j], hn::Mul(dx, hn::Set(d, b[j])));
      }
    }
    hwy::Prefetch(block.ahead[0].data + t * block.ahead[0].stride);
    hwy::Prefetch(block.ahead[1].data + t * block.ahead[1].stride);
    token += token_size, kept += kept_size, b += p.in.b.stride;
  }
  c += rows * p.in.c.stride, sums += rows * sums_size;
  for (int64_t t = rows - 1; t >= 0; --t) {
    token -= token_size, kept -= kept_size, sums -= sums_size;
    b -= p.in.b.stride, c -= p.in.c.stride;
    Vector key[S], query[S], db[S], dc[S];
    HWY_UNROLL(2)
    for (int j = 0; j < S; ++j) {
      key[j] = hn::Set(d, b[j]), query[j] = hn::Set(d, c[j]);
      db[j] = block.vector == 0 ? hn::Zero(d) : hn::Load(d, sums + j * lanes);
      dc[j] = block.vector == 0 ? hn::Zero(d) : hn::Load(d, sums + (S + j) * lanes);
    }
    HWY_UNROLL(2)
    for (int i = 0; i < V; ++i) {
      const auto field = [&](int f) { return token + (f * V + i) * lanes; };
      const auto dt = hn::Load(d, field(kDt)), dx = hn::Load(d, field(kDx));
      Vector dy, ddx, ddt;
      if constexpr (kFirst) {
        dy = LoadN(d, of_row(p.dy, t, i), count(i));
        hn::Store(dy, d, field(kDy));
        ddx = ddt = hn::Zero(d);
      } else {
        dy = hn::Load(d, field(kDy));
        ddx = hn::Load(d, field(kDdx)), ddt = hn::Load(d, field(kDdt));
      }
      HWY_UNROLL(2)
      for (int j = 0; j < S; ++j) {
        g[i][j] = hn::MulAdd(query[j], dy, g[i][j]);
        dc[j] = hn::MulAdd(dy, state[i][j], dc[j]);
        db[j] = hn::MulAdd(g[i][j], dx, db[j]);
        ddx = hn::MulAdd(g[i][j], key[j], ddx);
        g[i][j] = hn::Mul(g[i][j], hn::Load(d, kept + (i * S + j) * lanes));
        state[i][j] = hn::Load(d, kept + ((V + i) * S + j) * lanes);
        const auto through = hn::Mul(g[i][j], state[i][j]);
        ddt = hn::MulAdd(through, rate[i][j], ddt);
        drate[i][j] = hn::MulAdd(through, dt, drate[i][j]);
      }
      if constexpr (kLast) {
        const auto unit = hn::Set(d, static_cast<T>(0.69314718055994530942));  // of A: log(2)
        const auto x = LoadN(d, of_row(p.in.x, t, i), count(i));
        const auto skipped = hn::Mul(hn::Load(d, p.in.D + at + i * lanes), dy);
        StoreN(hn::MulAdd(ddx, dt, skipped), d, of_row(p.dx, t, i), count(i));
        StoreN(hn::MulAdd(ddx, x, hn::Mul(unit, ddt)), d, of_row(p.ddt, t, i), count(i));
        T* dD = work.dD + channel + i * lanes;
        hn::Store(hn::MulAdd(dy, x, hn::Load(d, dD)), d, dD);
      } else {
        hn::Store(ddx, d, field(kDdx));
        hn::Store(ddt, d, field(kDdt));
      }
    }
    HWY_UNROLL(2)
    for (int j = 0; j < S; ++j) {
      hn::Store(db[j], d, sums + j * lanes);
      hn::Store(dc[j], d, sums + (S + j) * lanes);
    }
  }
  HWY_UNROLL(2)
  for (int i = 0; i < V; ++i) HWY_UNROLL(2)
  for (int j = 0; j < S; ++j) {
    const int64_t place = (n + j) * SelectiveShape::kTask + channel + i * lanes;
    hn::Store(g[i][j], d, work.dh + place);
    hn::Store(drate[i][j], d, work.dA + place);
  }
}

// db and dc of S states of a chunk: sums over the lanes.
template <int S, typename T>
HWY_INLINE void SelectiveStoreSums(const SelectiveBackward<T>& p, const SelectiveBlock<T>& block,
                                   int64_t task, const SelectiveScratch<T>& work) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), N = p.shape.N, rows = block.rows;
  const int64_t to = (task * p.n + block.begin) * N + block.n;
  T *HWY_RESTRICT db = p.db + to, *HWY_RESTRICT dc = p.dc + to;
  const T* HWY_RESTRICT sums = work.sums;
  for (int64_t t = 0; t < rows; ++t, sums += lanes * 2 * S, db += N, dc += N) {
#if HWY_TARGET <= HWY_AVX3
    if constexpr (sizeof(T) == 4 && S == 2) {
      const hn::CappedTag<T, 2> two;
      const auto four = SumsOfLanes(d, hn::Load(d, sums), hn::Load(d, sums + lanes),
                                    hn::Load(d, sums + 2 * lanes), hn::Load(d, sums + 3 * lanes));
      hn::StoreU(hn::LowerHalf(two, four), two, db);
      hn::StoreU(hn::UpperHalf(two, four), two, dc);
      continue;
    }
#endif
    for (int64_t j = 0; j < S; ++j) {
      db[j] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums + j * lanes)));
      dc[j] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums + (S + j) * lanes)));
    }
  }
}

// Lines of memory that are needed soon, as columns with a line for every token.
template <typename T>
class SelectiveAhead {
 public:
  explicit SelectiveAhead(const T* cached) : lines_{{cached, 0}, {cached, 0}} {}
  // Columns of `width` entries at `data`, whose rows are `stride` entries apart.
  void Want(const T* data, int64_t stride, int64_t width, int64_t step = kLine) {
    for (int64_t column = 0; column < width && count_ < kMost; column += step, ++count_) {
      lines_[count_ + 2] = lines_[count_];
      lines_[count_] = {data + column, stride};
    }
  }
  // Two columns; after the last ones, memory that is in the cache.
  const StridedRows<const T>* Next() {
    const auto* next = lines_ + HWY_MIN(next_, count_);
    next_ += 2;
    return next;
  }
  static constexpr int64_t kLine = 64 / sizeof(T);

 private:
  static constexpr int64_t kMost = 64;
  StridedRows<const T> lines_[kMost + 2];
  int64_t count_ = 0, next_ = 0;
};

// Where a task of a chunk reads and writes.
struct SelectivePlace {
  int64_t chunk, begin, task;
};

template <typename T>
SelectiveAhead<T> LinesAhead(const SelectiveBackward<T>& p, const SelectivePlace& now,
                             const SelectivePlace& next, bool enters, const T* cached) {
  constexpr int64_t kTask = SelectiveShape::kTask, kLine = SelectiveAhead<T>::kLine;
  const SelectiveShape& s = p.shape;
  const int64_t N = s.N, channel = next.task * kTask, sums = (next.task * p.n + next.begin) * N;
  const int64_t channels = HWY_MIN(kTask, s.C - channel);
  SelectiveAhead<T> ahead(cached);
  if (enters)
    ahead.Want(p.states + (next.chunk * s.tasks() + next.task) * N * kTask, kLine, N * kTask,
               kLine * s.tile);
  if (next.begin != now.begin) {
    ahead.Want(TokenRow(p.in.b, next.begin), p.in.b.stride, N);
    ahead.Want(TokenRow(p.in.c, next.begin), p.in.c.stride, N);
  }
  const auto want = [&](const auto& rows) {
    ahead.Want(rows.data + next.begin * rows.stride + channel, rows.stride, channels);
  };
  ahead.Want(p.db + sums, N, N), ahead.Want(p.dc + sums, N, N);
  want(p.in.x), want(p.in.dt), want(p.dy), want(p.dx), want(p.ddt);
  return ahead;
}

// One task of a chunk. `enters`: a state enters the chunk.
template <typename T>
void SelectiveChunkTask(const SelectiveBackward<T>& p, const SelectivePlace& place, int64_t rows,
                        bool enters, SelectiveAhead<T> ahead, const SelectiveScratch<T>& work) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kTask = SelectiveShape::kTask;
  constexpr int V = kBlockVectors, S = kBlockStates;
  const int64_t N = p.shape.N, lanes = hn::Lanes(d), first = place.task * kTask;
  const int64_t vectors = (HWY_MIN(kTask, p.shape.C - first) + lanes - 1) / lanes;
  SelectiveBlock<T> block{
      .begin = place.begin,
      .rows = rows,
      .first = first,
      .vector = 0,
      .n = 0,
      .before =
          enters ? p.states + (place.chunk * p.shape.tasks() + place.task) * N * kTask : nullptr,
      .ahead = nullptr};
  const auto states = [&]<int Count>() HWY_ATTR {
    const bool is_last = block.n + Count == N;
    for (block.vector = 0; block.vector < vectors; block.vector += V) {
      block.ahead = ahead.Next();
      if (block.n == 0 && is_last)
        SelectiveStates<Count, true, true>(p, block, work);
      else if (block.n == 0)
        SelectiveStates<Count, true, false>(p, block, work);
      else if (is_last)
        SelectiveStates<Count, false, true>(p, block, work);
      else
        SelectiveStates<Count, false, false>(p, block, work);
    }
    SelectiveStoreSums<Count>(p, block, place.task, work);
    block.n += Count;
  };
  while (block.n + S <= N) states.template operator()<S>();
  while (block.n < N) states.template operator()<1>();
}

template <typename T>
void SelectiveBackwardTasks(const SelectiveBackward<T>& p, const SelectiveRange& range,
                            const SelectiveTasks& tasks) {
  const SelectiveShape& s = p.shape;
  const hn::ScalableTag<T> d;
  constexpr int64_t kTask = SelectiveShape::kTask;
  constexpr int V = kBlockVectors, S = kBlockStates;
  const int64_t lanes = hn::Lanes(d), N = s.N, row = s.tile * lanes;
  const int64_t blocks = (kTask + V * lanes - 1) / (V * lanes), weights = (3 * N + 1) * kTask;
  const int64_t size = row * blocks * kFields * V + row * 2 * V * S + row * 2 * S +
                       (tasks.end - tasks.begin) * weights;
  const auto memory = make_workspace<T>(size);
  std::memset(memory.get(), 0, sizeof(T) * static_cast<size_t>(size));
  SelectiveScratch<T> work;
  work.tokens = memory.get();
  work.kept = work.tokens + row * blocks * kFields * V;
  work.sums = work.kept + row * 2 * V * S;
  const auto of_task = [&](int64_t task) {
    SelectiveScratch<T> own = work;
    own.A = work.sums + row * 2 * S + (task - tasks.begin) * weights;
    own.dh = own.A + N * kTask, own.dA = own.dh + N * kTask, own.dD = own.dA + N * kTask;
    return own;
  };
  for (int64_t task = tasks.begin; task < tasks.end; ++task)
    for (int64_t n = 0; n < N; ++n)
      std::memcpy(of_task(task).A + n * kTask, p.in.A + n * s.padded() + task * kTask,
                  sizeof(T) * kTask);

  const int64_t count = (range.end - range.begin + s.tile - 1) / s.tile;
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t begin = range.begin + i * s.tile, rows = HWY_MIN(s.tile, range.end - begin);
    for (int64_t task = tasks.begin; task < tasks.end; ++task) {
      const SelectivePlace now{range.first_chunk + i, begin, task};
      // The next task, or the first one of the chunk before. As many rows are prefetched as this
      // chunk has.
      SelectivePlace next = now;
      if (task + 1 < tasks.end)
        ++next.task;
      else if (i > 0)
        next = {now.chunk - 1, begin - s.tile, tasks.begin};
      const bool next_enters = next.begin > range.begin;
      SelectiveChunkTask(p, now, rows, /*enters=*/i > 0,
                         LinesAhead(p, now, next, next_enters, work.tokens), of_task(task));
    }
  }
  for (int64_t task = tasks.begin; task < tasks.end; ++task) {
    const auto own = of_task(task);
    const int64_t to = task * kTask;
    for (int64_t n = 0; n < N; ++n)
      std::memcpy(p.dA + (range.sequence * N + n) * s.padded() + to, own.dA + n * kTask,
                  sizeof(T) * kTask);
    std::memcpy(p.dD + range.sequence * s.padded() + to, own.dD, sizeof(T) * kTask);
  }
}

#define HYDRAMIX_SELECTIVE_SCAN(T, name)                                                   \
  void SelectiveForward##name(const SelectiveForward<T>& p, const SelectiveRange& range,   \
                              const SelectiveTasks& tasks) {                               \
    SelectiveForwardTasks(p, range, tasks);                                                \
  }                                                                                        \
  void SelectiveBackward##name(const SelectiveBackward<T>& p, const SelectiveRange& range, \
                               const SelectiveTasks& tasks) {                              \
    SelectiveBackwardTasks(p, range, tasks);                                               \
  }
HYDRAMIX_SELECTIVE_SCAN(float, F32)
HYDRAMIX_SELECTIVE_SCAN(double, F64)

}  // namespace hydramix::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydramix::kernels {

#define HYDRAMIX_EXPORT_SELECTIVE_SCAN(T, name)                                               \
  HWY_EXPORT(SelectiveForward##name);                                                         \
  HWY_EXPORT(SelectiveBackward##name);                                                        \
  template <>                                                                                 \
  void selective_scan_forward<T>(const SelectiveForward<T>& p, const SelectiveRange& range,   \
                                 const SelectiveTasks& tasks) {                               \
    HWY_DYNAMIC_DISPATCH(SelectiveForward##name)(p, range, tasks);                            \
  }                                                                                           \
  template <>                                                                                 \
  void selective_scan_backward<T>(const SelectiveBackward<T>& p, const SelectiveRange& range, \
                                  const SelectiveTasks& tasks) {                              \
    HWY_DYNAMIC_DISPATCH(SelectiveBackward##name)(p, range, tasks);                           \
  }
HYDRAMIX_EXPORT_SELECTIVE_SCAN(float, F32)
HYDRAMIX_EXPORT_SELECTIVE_SCAN(double, F64)

}  // namespace hydramix::kernels
#endif  // HWY_ONCE
