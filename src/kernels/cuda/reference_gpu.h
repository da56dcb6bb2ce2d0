// SPDX-License-Identifier: Apache-2.0
// The GPU for which work is divided. The parts of a sum determine its bits, so they are the same on
// every device and do not depend on the current one. Divisions that change no result may depend on
// it (multiprocessors() in scan_launch.cuh).
#pragma once

namespace hydramix::cuda {

constexpr int kReferenceProcessors = 132;  // multiprocessors of an H100 or H200

}  // namespace hydramix::cuda
