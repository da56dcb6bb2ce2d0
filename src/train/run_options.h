// SPDX-License-Identifier: Apache-2.0
// Options that every kind of training has, declared once. The members are the options' own, since
// their defaults differ: out, device, precision.
#pragma once

#include "hydramix/options.h"

namespace hydramix {

template <class Self, class Visitor>
void fields_of_device(Self& self, Visitor& v) {
  v("device", self.device, Choices{"auto", "cpu", "cuda"}, "auto: a GPU if LibTorch finds one");
  v("precision", self.precision, Choices{"auto", "float32", "bfloat16"},
    "type of matrix products; weights are float32; auto: bfloat16 on a GPU");
}

template <class Text, class Visitor>
void fields_of_profile(Text& profile, Visitor& v) {
  v("profile", profile,
    "file for a timeline of the host's work and the GPU's, as a Chrome trace (Perfetto shows it), "
    "written when training ends or is interrupted; of rank 0");
}

template <class Self, class Visitor>
void fields_of_run(Self& self, Visitor& v) {
  v("out", self.out, Required{}, "folder of the run; an existing run is continued");
  fields_of_device(self, v);
}

// The options of a trainer's run that do not change its results, so that a run may be continued
// with others.
inline std::vector<std::string> free_run_keys(const std::vector<std::string>& more = {}) {
  std::vector<std::string> keys{"out",
                                "device",
                                "profile",
                                "train.micro_batch",
                                "train.log_every",
                                "train.checkpoint_every",
                                "train.keep",
                                "train.most_skipped",
                                "train.bucket_megabytes",
                                "train.timeout",
                                "train.tensorboard",
                                "model.recompute"};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace hydramix
