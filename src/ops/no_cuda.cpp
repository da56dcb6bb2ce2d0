// SPDX-License-Identifier: Apache-2.0
// The symbols of ops/cuda in a library without GPU kernels. backend_of() never returns kCuda there,
// so they are not called; if they are, they throw.
#include "hydramix/error.h"
#include "ops/adamw.h"
#include "ops/backend.h"
#include "ops/complex_scan.h"
#include "ops/depthwise_conv.h"
#include "ops/device_time.h"
#include "ops/embedding.h"
#include "ops/gated_scan.h"
#include "ops/graph.h"
#include "ops/host_copy.h"
#include "ops/hydra_inner.h"
#include "ops/linear_cross_entropy.h"
#include "ops/norm.h"
#include "ops/projection.h"
#include "ops/rounded_copy.h"
#include "ops/scan.h"
#include "ops/selective_scan.h"
#include "ops/sequences.h"

namespace hydramix {

bool has_cuda_kernels() { return false; }

namespace {

using torch::Tensor;

[[noreturn]] void missing() {
  throw Error(
      "this library was built without GPU kernels. Build it with LibTorch for CUDA and a CUDA "
      "compiler.");
}

}  // namespace

struct OwnStream::State {};
OwnStream::OwnStream(torch::Device) {}
void take_own_stream(torch::Device) {}
OwnStream::~OwnStream() = default;

struct Graph::State {};
Graph::Graph(const std::function<void()>&) { missing(); }
Graph::~Graph() = default;
void Graph::replay() { missing(); }

namespace on_cuda {

void conv_forward(const ConvCall&, const Tensor&) { missing(); }
ConvWeightGradients conv_backward(const ConvCall&, const Tensor&, const Tensor&) { missing(); }

void gated_norm_forward(const GatedNormCall&, const Tensor&) { missing(); }
Tensor gated_norm_backward(const GatedNormCall&, const Tensor&, const Tensor&, const Tensor&) {
  missing();
}
void layer_norm_forward(const LayerNormCall&, const Tensor&) { missing(); }
LayerNormGradients layer_norm_backward(const LayerNormCall&, const Tensor&) { missing(); }

std::vector<Tensor> scan_forward(const ScanCall&, const Tensor&) { missing(); }
void scan_backward(const ScanCall&, const std::vector<Tensor>&, const Tensor&,
                   const ScanGradients&) {
  missing();
}

bool gated_scan_fits(const Tensor&, int64_t, bool) { missing(); }
Tensor gated_scan_forward(const GatedScanCall&, const Tensor&, bool) { missing(); }
void gated_scan_backward(const GatedScanCall&, const Tensor&, const Tensor&, const Tensor&,
                         const GatedScanParams&) {
  missing();
}

bool selective_scan_fits(const Tensor&, int64_t) { missing(); }
Tensor selective_scan_forward(const SelectiveScanCall&, const Tensor&, bool) { missing(); }
SelectiveScanParams selective_scan_backward(const SelectiveScanCall&, const Tensor&, const Tensor&,
                                            const Tensor&) {
  missing();
}

void complex_scan_forward(const Tensor&, const Tensor&, const Tensor&, const Sequences&,
                          const Tensor&) {
  missing();
}
std::vector<Tensor> complex_scan_backward(const Tensor&, const Tensor&, const Sequences&,
                                          const Tensor&, const Tensor&) {
  missing();
}

HydraDelta hydra_convolve(const ConvCall&, const HydraWeights&, const Tensor&) { missing(); }
HydraDeltaGradients hydra_delta_backward(const Tensor&, const HydraWeights&, const Tensor&,
                                         const Tensor&, const Tensor&) {
  missing();
}
bool hydra_inner_fits(const Tensor&, const HydraShape&) { missing(); }

Tensor product_in_float(const Tensor&, const Tensor&) { missing(); }
Tensor column_sums(const Tensor&) { missing(); }

CrossEntropy cross_entropy_in_chunks(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&, int64_t, CrossEntropyGradients*) {
  missing();
}

Tensor embedding_gradient(const Tensor&, const Tensor&, int64_t) { missing(); }

Tensor rounded(RoundedCopy::State&, const Tensor&) { missing(); }
void set_rounded(RoundedCopy::State&, const Tensor&, const Tensor&) { missing(); }

Tensor index_of_tokens(const Sequences&, torch::Device) { missing(); }
Tensor place_of_tokens(const Sequences&, torch::Device) { missing(); }
void make_table(const Sequences&, torch::Device) { missing(); }
void make_refillable_table(const Sequences&, torch::Device) { missing(); }
void refill_table(const Sequences&, const std::vector<int64_t>&) { missing(); }

Tensor sum_of_squares(const AdamWPlan&, const Tensor&) { missing(); }
void adamw_step(const AdamWPlan&, const AdamWBuffers&, const AdamWUpdate&) { missing(); }

std::shared_ptr<void> start_copy(const Tensor&, const Tensor&) { missing(); }
void wait_for_copy(const std::shared_ptr<void>&) { missing(); }
c10::Stream stream_for_copies(torch::Device) { missing(); }
std::shared_ptr<void> start_upload(const std::vector<Tensor>&, c10::Stream, std::vector<Tensor>&) {
  missing();
}
void use_after_copy(const std::shared_ptr<void>&, const std::vector<Tensor>&) { missing(); }

double median_ms(const std::function<void()>&, int, int) { missing(); }
std::vector<std::pair<std::string, double>> median_parts_ms(
    const std::function<void(const std::function<void(const char*)>& mark)>&, int, int) {
  missing();
}
std::shared_ptr<void> record_event() { missing(); }
void wait_for_event(const std::shared_ptr<void>&) { missing(); }
bool has_passed(const std::shared_ptr<void>&) { missing(); }
double ms_between(const std::shared_ptr<void>&, const std::shared_ptr<void>&) { missing(); }
void reset_peak_memory() { missing(); }
double peak_memory_bytes() { missing(); }

}  // namespace on_cuda
}  // namespace hydramix
