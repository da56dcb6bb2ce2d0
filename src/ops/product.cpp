// SPDX-License-Identifier: Apache-2.0
#include "ops/product.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <new>
#include <vector>

#include "hydramix/error.h"
#include "kernels/cpu/product.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_kernel(const Tensor& t) {
  return t.is_cpu() && (t.scalar_type() == torch::kFloat32 || t.scalar_type() == torch::kFloat64);
}

bool is_cpu_bfloat16(const Tensor& t) { return t.is_cpu() && t.scalar_type() == torch::kBFloat16; }

// Each thread keeps its workspace: the page faults of a new megabyte cost more than packing.
template <typename T>
T* scratch(int64_t entries) {
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<T[], Free> memory;
  thread_local int64_t size = 0;
  if (size < entries) {
    memory.reset();
    memory.reset(new (std::align_val_t{64}) T[static_cast<std::size_t>(entries)]);
    size = entries;
  }
  return memory.get();
}

// The kernel needs matrices that are contiguous along rows or along columns.
Tensor with_unit_stride(const Tensor& t) {
  const bool fits = t.size(-1) == 1 || t.stride(-1) == 1 || t.size(-2) == 1 || t.stride(-2) == 1;
  return fits ? t : t.contiguous();
}

struct Strides {
  int64_t row, column;
};
// LibTorch's stride of a dimension of size 1 may have any value.
Strides strides(const Tensor& t) {
  if (t.size(-1) == 1 || t.stride(-1) == 1) return {t.stride(-2), 1};
  return {1, t.stride(-1)};
}

// Where each matrix of t begins, in entries.
std::vector<int64_t> matrix_offsets(const Tensor& t) {
  std::vector<int64_t> offsets{0};
  for (int64_t d = 0; d + 2 < t.dim(); ++d) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(t.size(d)));
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < t.size(d); ++i) next.push_back(offset + i * t.stride(d));
    offsets = std::move(next);
  }
  return offsets;
}

// How C is cut into blocks: enough to balance the threads, none so small that packing dominates.
struct Cut {
  int64_t rows, columns;              // of a block
  int64_t row_blocks, column_blocks;  // of a matrix
  int64_t matrices_per_task;          // of a batch of small matrices
};
Cut cut(int64_t matrices, int64_t m, int64_t n, int64_t k, int64_t max_rows) {
  using kernels::kProductColumns;
  const int64_t threads = at::get_num_threads();
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  int64_t row_blocks = (m + max_rows - 1) / max_rows, column_blocks = 1;
  if (threads > 1 && flops * static_cast<double>(matrices) > 1e6) {
    const auto tasks = [&] { return matrices * row_blocks * column_blocks; };
    while (tasks() < 4 * threads && n / column_blocks >= 8 * kProductColumns) column_blocks *= 2;
    while (tasks() < 2 * threads && m / row_blocks >= 64) row_blocks *= 2;
  }
  Cut c;
  c.rows = (m + row_blocks - 1) / row_blocks;
  c.columns = ((n + column_blocks - 1) / column_blocks + kProductColumns - 1) / kProductColumns *
              kProductColumns;
  c.row_blocks = (m + c.rows - 1) / c.rows;
  c.column_blocks = (n + c.columns - 1) / c.columns;
  const int64_t share = std::max<int64_t>(1, matrices / (8 * threads));
  c.matrices_per_task =
      std::clamp<int64_t>(static_cast<int64_t>(1e5 / std::max(flops, 1.0)), 1, share);
  return c;
}

// c (..., m, n) (+)= a (..., m, k) b (..., k, n) + bias, of one shape and dtype.
template <typename T>
void run(const Tensor& c, const Tensor& a_given, const Tensor& b_given, const Tensor& bias,
         bool add) {
  const Tensor a = with_unit_stride(a_given), b = with_unit_stride(b_given);
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (c.numel() == 0) return;
  const auto a_offsets = matrix_offsets(a), b_offsets = matrix_offsets(b),
             c_offsets = matrix_offsets(c);
  const auto [a_row, a_column] = strides(a);
  const auto [b_row, b_column] = strides(b);
  const auto matrices = static_cast<int64_t>(c_offsets.size());
  const Cut blocks = cut(matrices, m, n, k, kernels::product_rows<T>(k));
  const int64_t per_matrix = blocks.row_blocks * blocks.column_blocks;
  const int64_t memory = kernels::product_scratch<T>(blocks.rows, k);
  const T *a_data = a.data_ptr<T>(), *b_data = b.data_ptr<T>(),
          *bias_data = bias.defined() ? bias.data_ptr<T>() : nullptr;
  T* c_data = c.data_ptr<T>();
  const int64_t c_row = c.stride(-2);
  const auto multiply_block = [&, a_row = a_row, a_column = a_column, b_row = b_row,
                               b_column = b_column](int64_t i, int64_t block) {
    const auto at = static_cast<std::size_t>(i);
    const kernels::ProductParams<T> p{.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a_data + a_offsets[at],
                                      .a_row = a_row,
                                      .a_column = a_column,
                                      .b = b_data + b_offsets[at],
                                      .b_row = b_row,
                                      .b_column = b_column,
                                      .bias = bias_data,
                                      .c = c_data + c_offsets[at],
                                      .c_row = c_row,
                                      .add = add};
    const int64_t row = block / blocks.column_blocks * blocks.rows;
    const int64_t column = block % blocks.column_blocks * blocks.columns;
    kernels::product(p,
                     {.row = row,
                      .rows = std::min(blocks.rows, m - row),
                      .column = column,
                      .columns = std::min(blocks.columns, n - column)},
                     scratch<T>(memory));
  };
  const int64_t groups = (matrices + blocks.matrices_per_task - 1) / blocks.matrices_per_task;
  parallel(groups * per_matrix, [&](int64_t task) {
    const int64_t first = task / per_matrix * blocks.matrices_per_task;
    for (int64_t i = first; i < std::min(matrices, first + blocks.matrices_per_task); ++i)
      multiply_block(i, task % per_matrix);
  });
}

void run_any(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& bias, bool add) {
  if (c.scalar_type() == torch::kFloat64)
    run<double>(c, a, b, bias, add);
  else
    run<float>(c, a, b, bias, add);
}

// Without autograd; the leading dimensions of a and b are broadcast.
Tensor broadcast_product(const Tensor& a, const Tensor& b, const Tensor& bias) {
  const auto batch = [](const Tensor& t) { return t.sizes().slice(0, t.dim() - 2); };
  const auto common = at::infer_size(batch(a), batch(b));
  const auto shaped = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape(common.begin(), common.end());
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  auto c = torch::empty(shaped(a.size(-2), b.size(-1)), a.options());
  run_any(c, a.expand(shaped(a.size(-2), a.size(-1))), b.expand(shaped(b.size(-2), b.size(-1))),
          bias, /*add=*/false);
  return c;
}

// a b + bias, with the gradients a' = c' b^T, b' = a^T c', summed where they were broadcast.
class Product : public torch::autograd::Function<Product> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b,
                        const Tensor& bias) {
    ctx->save_for_backward({a, b});
    return broadcast_product(a, b, bias.numel() == 0 ? Tensor() : bias);
  }
  static variable_list backward(AutogradContext* ctx, variable_list outputs) {
    const NoAutocast no_autocast;
    const auto saved = ctx->get_saved_variables();
    const auto &a = saved[0], &b = saved[1], &dc = outputs[0];
    Tensor da, db, dbias;
    if (ctx->needs_input_grad(0))
      da = at::sum_to(matrix_product(dc, b.transpose(-2, -1)), a.sizes());
    if (ctx->needs_input_grad(1))
      db = at::sum_to(matrix_product(a.transpose(-2, -1), dc), b.sizes());
    if (ctx->needs_input_grad(2)) dbias = dc.flatten(0, -2).sum(0);
    return {da, db, dbias};
  }
};

// a (..., m, k), b (..., k, n) of a dtype that has a kernel.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& bias) {
  if (!wants_gradient({a, b, bias})) return broadcast_product(a, b, bias);
  // An autograd function accepts no undefined tensor: a missing bias is an empty tensor.
  return Product::apply(a, b, bias.defined() ? bias : torch::empty({0}, a.options()));
}

}  // namespace

Tensor matrix_product(const Tensor& a, const Tensor& b) {
  if (is_cpu_bfloat16(a) && is_cpu_bfloat16(b))
    return matrix_product(a.to(torch::kFloat32), b.to(torch::kFloat32)).to(torch::kBFloat16);
  if (!has_kernel(a) || !has_kernel(b) || a.dim() < 2 || b.dim() < 2) return torch::matmul(a, b);
  HYDRAMIX_CHECK(a.size(-1) == b.size(-2) && a.scalar_type() == b.scalar_type(),
                 "matrix product: expected a (..., m, k) and b (..., k, n) of one dtype; got ",
                 a.sizes(), " of ", a.dtype(), " and ", b.sizes(), " of ", b.dtype(), ".");
  if (b.dim() > 2 || a.dim() == 2) return product(a, b, {});
  // With a single matrix b, the rows of all matrices of a form one product.
  auto shape = a.sizes().vec();
  shape.back() = b.size(-1);
  return product(a.reshape({-1, a.size(-1)}), b, {}).view(shape);
}

Tensor linear_map(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_cpu_bfloat16(x)) {
    const auto wide = [](const Tensor& t) { return t.defined() ? t.to(torch::kFloat32) : t; };
    return linear_map(wide(x), wide(weight), wide(bias)).to(torch::kBFloat16);
  }
  if (!has_kernel(x)) return torch::linear(x, weight, bias);
  HYDRAMIX_CHECK(
      x.dim() >= 1 && weight.dim() == 2 && weight.size(1) == x.size(-1) &&
          weight.scalar_type() == x.scalar_type() && weight.is_cpu() &&
          (!bias.defined() ||
           (bias.sizes() == weight.sizes().slice(0, 1) && bias.scalar_type() == x.scalar_type())),
      "linear map: expected x (..., in), weight (out, in) and bias (out) of one dtype and "
      "device; got ",
      x.sizes(), " of ", x.dtype(), ", ", weight.sizes(), " of ", weight.dtype(),
      bias.defined() ? concat(" and ", bias.sizes()) : "", ".");
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  const auto rows = x.reshape({-1, x.size(-1)});
  return product(rows, weight.t(), bias.defined() ? bias.contiguous() : bias).view(shape);
}

void matrix_product_into(const Tensor& c, const Tensor& a, const Tensor& b, bool add) {
  const torch::NoGradGuard no_grad;
  if (has_kernel(c) && (c.size(-1) == 1 || c.stride(-1) == 1)) return run_any(c, a, b, {}, add);
  auto out = c;
  if (c.is_cpu() || c.dim() > 3) {
    const auto product = matrix_product(a, b);
    add ? out.add_(product) : out.copy_(product);
  } else if (add) {
    c.dim() == 3 ? out.baddbmm_(a, b) : out.addmm_(a, b);
  } else {
    at::matmul_out(out, a, b);
  }
}

}  // namespace hydramix
