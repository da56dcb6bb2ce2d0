// SPDX-License-Identifier: Apache-2.0
// The communicator of several ranks: operations of a process group, watched by the membership.
#pragma once

#include "train/communicator.h"
#include "train/launch_environment.h"

namespace hydramix {

std::unique_ptr<Communicator> make_c10d_communicator(const LaunchEnvironment& launched,
                                                     const CommunicatorOptions& options,
                                                     torch::Device device);

}  // namespace hydramix
