// SPDX-License-Identifier: Apache-2.0
// The communicator of several ranks: the operations of a c10d process group, with failure
// detection.
#pragma once

#include "dist/communicator.h"
#include "dist/launch_environment.h"

namespace hydramix {

std::unique_ptr<Communicator> make_c10d_communicator(const LaunchEnvironment& launched,
                                                     const CommunicatorOptions& options,
                                                     torch::Device device);

}  // namespace hydramix
