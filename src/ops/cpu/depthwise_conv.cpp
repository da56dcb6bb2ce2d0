// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv.h"

#include "kernels/cpu/conv.h"
#include "ops/cpu/rows.h"
#include "ops/kernel_tensors.h"
#include "ops/parallel.h"

namespace hydramix::on_cpu {
namespace {

using kernels::ConvBlock;
using kernels::ConvShape;
using kernels::kConvBlock;
using torch::Tensor;

ConvShape shape_of(const ConvCall& call) {
  return {call.x.size(0), call.x.size(1), call.weight.size(2), call.centre, call.silu};
}

std::vector<ConvBlock> blocks_of(const Sequences& sequences) {
  const auto& offsets = sequences.offsets();
  std::vector<ConvBlock> blocks;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int64_t t = offsets[s]; t < offsets[s + 1]; t += kConvBlock)
      blocks.push_back({t, std::min(t + kConvBlock, offsets[s + 1]), offsets[s], offsets[s + 1]});
  return blocks;
}

// (C, 1, K) -> (K, C), the order in which the kernel reads.
Tensor taps_of(const ConvCall& call) { return call.weight.select(1, 0).t().contiguous(); }

template <typename T>
const T* bias_of(const ConvCall& call) {
  return call.bias.numel() == 0 ? nullptr : call.bias.data_ptr<T>();
}

}  // namespace

void conv_forward(const ConvCall& call, const Tensor& y, const TokensDone& then) {
  const auto blocks = blocks_of(call.sequences);
  const auto taps = taps_of(call);
  dispatch_storage(call.x, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::ConvForward<S> p{shape_of(call), rows_of<const S>(call.x), taps.data_ptr<T>(),
                                    bias_of<T>(call), rows_of<S>(y)};
    parallel(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
      const auto& block = blocks[static_cast<std::size_t>(i)];
      kernels::conv_forward<S>(p, block);
      if (then) then(block.begin, block.end);
    });
  });
}

ConvWeightGradients conv_backward(const ConvCall& call, const Tensor& dy, const Tensor& dx) {
  const auto blocks = blocks_of(call.sequences);
  const auto count = static_cast<int64_t>(blocks.size());
  const auto taps = taps_of(call);
  const int64_t K = taps.size(0), C = taps.size(1);
  const auto partial = torch::empty({count, (K + 1) * C}, taps.options());
  dispatch_storage(call.x, [&](auto tag) {
    using S = decltype(tag);
    using T = kernels::Arithmetic<S>;
    const kernels::ConvBackward<S> p{.shape = shape_of(call),
                                     .x = rows_of<const S>(call.x),
                                     .weight = taps.data_ptr<T>(),
                                     .bias = bias_of<T>(call),
                                     .dy = rows_of<const S>(dy),
                                     .dx = rows_of<S>(dx),
                                     .workspace = partial.data_ptr<T>()};
    parallel(count, [&](int64_t i) {
      kernels::conv_backward<S>(p, blocks[static_cast<std::size_t>(i)], i);
    });
  });
  const auto sums = ordered_sum(partial).view({K + 1, C});
  return {sums.narrow(0, 0, K).t().unsqueeze(1), call.bias.numel() == 0 ? Tensor() : sums[K]};
}

}  // namespace hydramix::on_cpu
