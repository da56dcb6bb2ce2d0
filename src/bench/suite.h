// SPDX-License-Identifier: Apache-2.0
// A suite is a list of steps. Each verifies its results, then times them and reports.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/function.h"
#include "bench/machine.h"
#include "bench/measurement.h"
#include "bench/options.h"
#include "hydramix/block.h"

namespace hydramix::bench {

struct Report {
  std::function<void(const Measurement&)> measured;
  std::function<void(const std::string&)> remark;  // a remark, one line
};

struct Bench {
  Options options;
  Machine machine;
  Report report;
  std::map<std::string, double> errors = {};  // of what the GPU suite has verified, by name

  // The peak rates of this machine; reports them the first time.
  const Peak& peak(int threads);
};

struct Step {
  std::string name;
  std::function<void(Bench&)> run;
};

// Throws UsageError when the options contradict each other or the suite.
std::vector<Step> suite_steps(const std::string& suite, const Options& options);

std::vector<Step> product_suite(const Options& options);
std::vector<Step> block_suite(const Options& options);
std::vector<Step> scan_suite(const Options& options);
std::vector<Step> conv_suite(const Options& options);
std::vector<Step> mixers_suite(const Options& options);
std::vector<Step> model_suite(const Options& options);
std::vector<Step> long_suite(const Options& options);
std::vector<Step> cores_suite(const Options& options);
std::vector<Step> gpu_suite(const Options& options);
std::vector<Step> images_suite(const Options& options);

// ---- shared by suites ----

std::vector<int> thread_counts(const Options& options);
std::vector<int64_t> lengths_or(const Options& options, std::vector<int64_t> usual);

// Every length with every number of threads; and the packed batch, if requested.
std::vector<Subject> subjects(const Options& options, const std::string& suite, bool with_packed);
std::string title(const Subject& subject);
// A short subject for verification, with two sequences if packed.
Subject to_verify(const Subject& subject, const Options& options);
// Standard normal (B, L, width) in the subject's layout.
torch::Tensor random_input(const Subject& subject, int64_t width);
Layout layout_of(const Subject& subject);

BlockOptions block_options(const Options& options, const std::string& mixer = "hydra");

// Operations of a scan per token: for every channel and state, three in h = a h + (dt x) b and two
// in s = h c.
double scan_flops(int64_t tokens, const BlockOptions& options, int64_t directions);

struct Comparison {
  Subject subject;  // the pass is filled in
  Function work, gemms;
  double error = 0;
  // Run in place of gemms where these are not functions of tensors.
  Alternative floor_forward, floor_forward_backward;
  bool forward = true, forward_backward = true;
  bool backward_alone = false;  // as backward_ms, and backward_ratio to forward
};

// Times a comparison, all passes alternately: one measurement for each.
std::vector<Measurement> measure(Bench& bench, const Comparison& comparison);
// Times several comparisons alternately; all with the same number of threads.
std::vector<Measurement> measure(Bench& bench, const std::vector<Comparison>& comparisons);

}  // namespace hydramix::bench
