// SPDX-License-Identifier: Apache-2.0
// Which rank of how many this process is, and where rank 0 waits: read from what torchrun, mpirun
// or srun leave in the environment. A pure function of it, so that it can be tested.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hydramix {

struct LaunchEnvironment {
  int64_t rank = 0, size = 1, local_rank = 0;
  std::string launcher;        // as messages name it: "torchrun"; empty when alone
  std::string master_address;  // of rank 0; empty when alone
  uint16_t master_port = 0;
  // torchrun's agent hosts the store itself, for all attempts: rank 0 does not.
  bool agent_store = false;
  std::string attempt = "0";  // which start of the same run, where the store outlives a start

  bool hosts_store() const { return rank == 0 && !agent_store; }
};

// The value of an environment variable; nothing when it is unset.
using EnvironmentGetter = std::function<std::optional<std::string>(const std::string& name)>;

// In this order of precedence:
//   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
//   mpirun    OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK}, or PMI_{RANK,SIZE} and MPI_LOCALRANKID
//   srun      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID
// Where MASTER_ADDR is unset, the first host of SLURM's node list or, when all ranks run on one
// machine, 127.0.0.1; where MASTER_PORT is unset, a port derived from SLURM's job, or 29500.
// UsageError, naming the variables, when they are incomplete, no numbers, or contradict each other.
LaunchEnvironment launch_environment(const EnvironmentGetter& get);
LaunchEnvironment launch_environment();  // of this process

// The first of "node[007-010,12],login": "node007".
std::string first_slurm_host(const std::string& node_list);

}  // namespace hydramix
