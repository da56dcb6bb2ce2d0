// SPDX-License-Identifier: Apache-2.0
// Verifies the operations of the GPU suite before they are timed, at a small size against a
// reference on the CPU: the scan and the block in float64, the models in float32. What is timed as
// a CUDA graph must also give the same bits as one. Each check runs once per Bench. It throws if a
// result is wrong and returns the worst relative error by norms.
#pragma once

#include "bench/suite.h"
#include "hydramix/bert.h"
#include "hydramix/image_model.h"
#include "ops/scan.h"

namespace hydramix::bench {

inline const torch::Device kGpu(torch::kCUDA);

torch::TensorOptions on_gpu(torch::ScalarType type);
// Standard normal, on the GPU.
torch::Tensor random_bf16(const std::vector<int64_t>& shape);

// Both directions of the scan of a block on packed sequences, with random inputs.
struct ScanCase {
  Sequences sequences;
  torch::Tensor x;      // (n, H, P) bfloat16
  torch::Tensor bias;   // (H) float32, as is the rest
  torch::Tensor A;      // (H)
  torch::Tensor delta;  // (n, H)
  ScanDirection directions[2];

  ScanCase(const BlockOptions& options, const Sequences& sequences);
  // The same numbers in float64 on the CPU.
  ScanCase reference() const;
  std::vector<torch::Tensor> leaves();
  torch::Tensor run() const;

 private:
  std::vector<torch::Tensor*> inputs();
};

BertOptions encoder_options(const Bench& bench);

double verify_scan(Bench& bench);
// A causal core with all gradients (bench/gpu_cores.h).
double verify_core(Bench& bench, const std::string& core);
// A block in bfloat16 with all gradients; of mixers other than hydra the output and dy/du.
double verify_block(Bench& bench, const std::string& mixer);
// The hidden states and the loss of the whole encoder, and its block.
double verify_encoder(Bench& bench);
// The logits of the image model, and the block of the encoder.
double verify_image_model(Bench& bench, const ImageModelOptions& options);

}  // namespace hydramix::bench
