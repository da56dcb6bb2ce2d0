// SPDX-License-Identifier: Apache-2.0
// Options of a bench. Defaults are the sizes of the paper's encoders.
#pragma once

#include "bench/timer.h"
#include "hydramix/registry.h"

namespace hydramix::bench {

// The suites in the order in which they run; "cores", "long", "gpu" and "images" only on request.
inline const std::vector<std::string> kSuites{"product", "block",  "scan",
                                              "conv",    "mixers", "model"};

struct Options {
  std::string suite = "all";
  std::string only;
  std::string json;
  bool scaling = false;
  std::string svg;
  std::string pass = "both";
  std::vector<int64_t> lengths;
  int64_t batch = 1;
  int64_t packed = 8;
  std::vector<int64_t> threads;
  int64_t d_model = 768;
  double expand = 2;
  int64_t headdim = 64;
  int64_t d_state = 64;
  int64_t d_conv = 7;
  int64_t layers = 23;
  std::vector<std::string> mixers;
  int64_t rounds = 5;
  double min_seconds = 0.5;
  double max_seconds = 60;
  double tolerance = 1e-4;
  int64_t check_length = 131;
  int64_t seed = 1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("suite", self.suite,
      Choices{"all", "product", "block", "scan", "cores", "conv", "mixers", "model", "long", "gpu",
              "images"},
      "suite to measure; all: every suite but cores, long, gpu and images (the loader of images)");
    v("only", self.only, "only steps whose name contains this, such as '128 x 128'");
    v("json", self.json, "file for the measurements, one JSON object per line");
    v("scaling", self.scaling, "with --suite mixers: time over length, its slope, and a chart");
    v("svg", self.svg, "file for the chart of --scaling; default: scaling.svg");
    v("pass", self.pass, Choices{"forward", "forward_backward", "both"},
      "passes to time (model and long: only forward)");
    v("lengths", self.lengths, Range{1, 1 << 24},
      "lengths L; unless given 512, 2048 (product: 16, 128, 512, 2048 rows; mixers, model: 512; "
      "cores: 128, 2048, 16384; --scaling: 1024, 2048, ... 65536; long: 8192, 1048576; gpu: 128 to "
      "65536 for scan and block, 128 to 8192 for the encoder. With gpu, given lengths replace the "
      "steps of fixed length)");
    v("batch", self.batch, Range{1, 65536}, "sequences B in a batch (cores: at least)");
    v("packed", self.packed, Range{0, 65536},
      "block, scan: also this many sequences of the shortest length, packed in one row; 0: none");
    v("threads", self.threads, Range{1, 1024},
      "numbers of threads; unless given 1 and all cores (--scaling: 1)");
    v("d_model", self.d_model, Range{1, 1 << 20},
      "channels of the block; long halves the heads until L fits in memory");
    v("expand", self.expand, Range{1e-3, 1e3}, "d_inner = expand d_model");
    v("headdim", self.headdim, Range{1, 1 << 20}, "channels P of a head");
    v("d_state", self.d_state, Range{1, 65536}, "state size N of a scan");
    v("d_conv", self.d_conv, Range{1, 1 << 16}, "width of the convolution");
    v("layers", self.layers, Range{1, 4096}, "layers of the model");
    v("mixers", self.mixers, Choices{mixer_names},
      "mixers of the suites mixers and cores (none: all), and of the suite gpu beside Hydra (none: "
      "none)");
    v("rounds", self.rounds, Range{1, 1000000}, "smallest number of rounds");
    v("min_seconds", self.min_seconds, Range{0.0, 1e6}, "shortest time of a measurement");
    v("max_seconds", self.max_seconds, Range{0.0, 1e6},
      "no further round after this time; mixers skips lengths that would take longer");
    v("tolerance", self.tolerance, Range{0.0, kInfinity},
      "largest accepted relative error of float32 against the float64 oracle");
    v("check_length", self.check_length, Range{1, 4096}, "length at which results are verified");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of weights and inputs");
  }

  TimerOptions timer() const {
    return {.rounds = rounds, .min_seconds = min_seconds, .max_seconds = max_seconds};
  }
  bool forward() const { return pass != "forward_backward"; }
  bool forward_backward() const { return pass != "forward"; }
};

}  // namespace hydramix::bench
