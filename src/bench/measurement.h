// SPDX-License-Identifier: Apache-2.0
// One measurement: a JSON line and a row of the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/machine.h"

namespace hydramix::bench {

// The subject of a measurement.
struct Subject {
  std::string suite, name;
  std::string pass;  // "forward", "backward" or "forward_backward"
  int64_t batch = 1, length = 0;
  bool packed = false;  // the sequences lie end to end in one row
  int threads = 1;
  int64_t d_model = 0;

  int64_t tokens() const { return batch * length; }
};

// Lower bounds on the work of one run.
struct Work {
  double flops = 0;  // multiplications and additions; 0 if no count applies to all algorithms
  double bytes = 0;  // inputs, outputs and weights, each moved once
};

struct Measurement {
  Subject subject;
  Work work;
  double ms = 0;       // median
  double gemm_ms = 0;  // median of the matrix products that it is compared with, timed alternately
  double gemm_flops = 0;  // of those
  int64_t rounds = 0;
  double error = 0;  // worst relative error of the verification
  Peak peak;         // of this machine with this number of threads
  std::vector<std::pair<std::string, double>> extra;

  double tokens_per_s() const { return 1e3 * static_cast<double>(subject.tokens()) / ms; }
  double ratio() const { return ms / gemm_ms; }
  double gflops() const { return 1e-6 * work.flops / ms; }
  double gemm_gflops() const { return 1e-6 * gemm_flops / gemm_ms; }
  double gigabytes_per_s() const { return 1e-6 * work.bytes / ms; }
};

// One object in one line, without a newline. GFLOP/s and their share are absent if no operations
// were counted.
std::string json_line(const Measurement& measurement);

std::string table_header();
std::string table_row(const Measurement& measurement);

}  // namespace hydramix::bench
