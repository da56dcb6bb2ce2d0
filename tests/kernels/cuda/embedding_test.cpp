// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/embedding.h"

#include <cstring>

#include "kernels/cuda/limits.h"
#include "support/cuda.h"

namespace hydramix::cuda {
namespace {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// A few frequent ids and many rare ones. A quarter of the tokens has id 3, like [MASK].
std::vector<int64_t> uneven_ids(int64_t tokens, int64_t ids_end, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) {
    const double rank = std::exp(uniform(generator) * std::log(static_cast<double>(ids_end)));
    ids.push_back(uniform(generator) < 0.25 ? 3 % ids_end
                                            : std::min(ids_end, static_cast<int64_t>(rank)) - 1);
  }
  return ids;
}

struct Gradient {
  int64_t ids_end;
  int columns;
  std::vector<int64_t> ids;
  int64_t dy_row, offset = 0, table_offset = 0;
};

template <typename S>
void check(const Gradient& c) {
  const auto tokens = static_cast<int64_t>(c.ids.size());
  SCOPED_TRACE(testing::Message() << tokens << " tokens, " << c.ids_end << " x " << c.columns
                                  << ", rows " << c.dy_row << " apart, from " << c.offset
                                  << " on, table from " << c.table_offset << " on");
  const auto dy = stored<S>(normal_values(c.offset + tokens * c.dy_row, 31));
  const auto old = stored<float>(normal_values(c.table_offset + c.ids_end * c.columns, 32));
  auto expected = widened(old);
  std::vector<bool> occurs(static_cast<std::size_t>(c.ids_end));
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t id = c.ids[static_cast<std::size_t>(t)];
    if (id < 0 || id >= c.ids_end) continue;
    occurs[static_cast<std::size_t>(id)] = true;
    for (int v = 0; v < c.columns; ++v)
      expected[static_cast<std::size_t>(c.table_offset + id * c.columns + v)] +=
          wide(dy[static_cast<std::size_t>(c.offset + t * c.dy_row + v)]);
  }

  const DeviceBuffer<S> on_device(dy);
  const DeviceBuffer<int64_t> ids(c.ids);
  std::size_t bytes = 0;
  ASSERT_CUDA(embedding_gradient_workspace(tokens, c.ids_end, c.columns, bytes));
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    const DeviceBuffer<float> table(old);
    const DeviceBuffer<char> workspace(static_cast<int64_t>(bytes));
    EmbeddingGradient<S> p;
    p.tokens = tokens;
    p.ids_end = c.ids_end;
    p.columns = c.columns;
    p.ids = ids.data();
    p.dy = on_device.data() + c.offset;
    p.dy_row = c.dy_row;
    p.dtable = table.data() + c.table_offset;
    ASSERT_CUDA(embedding_gradient(p, workspace.data(), nullptr));
    const auto result = table.host();
    if (run == 0) first = result;
    EXPECT_TRUE(same_bits(first, result));
  }
  EXPECT_LT(relative_error(widened(first), expected), 2e-6);
  for (int64_t i = 0; i < static_cast<int64_t>(old.size()); ++i) {
    const int64_t id = (i - c.table_offset) / c.columns;
    if (i < c.table_offset || !occurs[static_cast<std::size_t>(id)]) {
      ASSERT_EQ(old[static_cast<std::size_t>(i)], first[static_cast<std::size_t>(i)])
          << "value " << i << " belongs to no token";
    }
  }
}

template <typename S>
class CudaEmbedding : public testing::Test {};
using Storages = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(CudaEmbedding, Storages);

TYPED_TEST(CudaEmbedding, AnyNumberOfTokens) {
  SKIP_WITHOUT_GPU();
  for (const int64_t tokens : {1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 5000})
    for (const int64_t ids_end : {1, 2, 50, 4096})
      check<TypeParam>({ids_end, 24, uneven_ids(tokens, ids_end, 1), 24});
}

TYPED_TEST(CudaEmbedding, AnyNumberOfColumns) {
  SKIP_WITHOUT_GPU();
  for (const int columns : {1, 2, 4, 7, 8, 12, 31, 768, 1023, 1024, 1032, 2056})
    check<TypeParam>({40, columns, uneven_ids(300, 40, 2), columns});
}

TYPED_TEST(CudaEmbedding, RowsOfAWiderMatrix) {
  SKIP_WITHOUT_GPU();
  for (const int64_t row : {104, 101})
    for (const int64_t offset : {0, 1, 8})
      check<TypeParam>({40, 96, uneven_ids(300, 40, 3), row, offset});
  check<TypeParam>({40, 96, uneven_ids(300, 40, 3), 96, 0, 1});
}

TYPED_TEST(CudaEmbedding, OneIdHasAllTokens) {
  SKIP_WITHOUT_GPU();
  for (const int64_t tokens : {64, 65, 128, 20000})
    check<TypeParam>({5, 16, std::vector<int64_t>(static_cast<std::size_t>(tokens), 4), 16});
}

// Ids that begin and end where pieces of 64 tokens do, and one token beside.
TYPED_TEST(CudaEmbedding, IdsThatFillWholePieces) {
  SKIP_WITHOUT_GPU();
  for (const int64_t shift : {-1, 0, 1}) {
    std::vector<int64_t> ids(static_cast<std::size_t>(64 + shift), 0);
    for (const int64_t count : {64, 128, 1, 63, 192, 64, 64})
      ids.insert(ids.end(), static_cast<std::size_t>(count), ids.back() + 1);
    check<TypeParam>({8, 16, ids, 16});
  }
}

TYPED_TEST(CudaEmbedding, EveryTokenHasItsOwnId) {
  SKIP_WITHOUT_GPU();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 1009; ++i) ids.push_back(i * 17 % 1009);
  check<TypeParam>({1009, 64, ids, 64});
}

TYPED_TEST(CudaEmbedding, IdsOutsideTheTableDoNotCount) {
  SKIP_WITHOUT_GPU();
  auto ids = uneven_ids(1000, 64, 4);
  for (std::size_t i = 0; i < ids.size(); i += 3)
    ids[i] = i % 2 == 0 ? -1 : int64_t{64} << (i % 57);
  check<TypeParam>({64, 24, ids, 24});
  check<TypeParam>({64, 24, std::vector<int64_t>(200, -1), 24});
}

TYPED_TEST(CudaEmbedding, NoTokens) {
  SKIP_WITHOUT_GPU();
  std::size_t bytes = 1;
  EXPECT_EQ(cudaSuccess, embedding_gradient_workspace(0, 10, 8, bytes));
  EXPECT_EQ(0u, bytes);
  EXPECT_EQ(cudaSuccess, embedding_gradient(EmbeddingGradient<TypeParam>{}, nullptr, nullptr));
}

TEST(CudaEmbeddingGraph, IsReplayedWithOtherIds) {
  SKIP_WITHOUT_GPU();
  const int64_t tokens = 3000, ids_end = 200;
  const int columns = 32;
  const DeviceBuffer<float> dy(stored<float>(normal_values(tokens * columns, 6)));
  const std::vector<float> zeros(static_cast<std::size_t>(ids_end * columns), 0.0f);
  const DeviceBuffer<float> plain(zeros), replayed(zeros);
  const DeviceBuffer<int64_t> ids(std::vector<int64_t>(static_cast<std::size_t>(tokens), 0));
  std::size_t bytes = 0;
  ASSERT_CUDA(embedding_gradient_workspace(tokens, ids_end, columns, bytes));
  const DeviceBuffer<char> workspace(static_cast<int64_t>(bytes));
  EmbeddingGradient<float> p{tokens, ids_end, columns, ids.data(), dy.data(), columns, nullptr};
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  p.dtable = replayed.data();
  ASSERT_CUDA(embedding_gradient(p, workspace.data(), stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  p.dtable = plain.data();
  for (const uint64_t seed : {7, 8}) {
    const auto now = uneven_ids(tokens, ids_end, seed);
    ASSERT_CUDA(
        cudaMemcpy(ids.data(), now.data(), now.size() * sizeof(int64_t), cudaMemcpyHostToDevice));
    ASSERT_CUDA(embedding_gradient(p, workspace.data(), nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_CUDA(cudaGraphLaunch(executable, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    const auto result = replayed.host();
    EXPECT_TRUE(same_bits(plain.host(), result));
    EXPECT_FALSE(same_bits(zeros, result));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST(CudaEmbeddingSizes, TooManyTokensAreRefused) {
  EmbeddingGradient<float> p;
  p.tokens = kMostTokens, p.columns = 4;
  std::size_t bytes = 0;
  EXPECT_EQ(cudaErrorInvalidValue, embedding_gradient_workspace(p.tokens, 7, p.columns, bytes));
  EXPECT_EQ(cudaErrorInvalidValue, embedding_gradient(p, nullptr, nullptr));
}

}  // namespace
}  // namespace hydramix::cuda
