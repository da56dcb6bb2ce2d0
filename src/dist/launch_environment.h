// SPDX-License-Identifier: Apache-2.0
// Reads rank, size and the address of rank 0 from the variables that torchrun, mpirun or srun set.
// A pure function of the environment, so that it can be tested.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hydramix {

struct LaunchEnvironment {
  int64_t rank = 0, size = 1, local_rank = 0;
  // The ranks form a group, because there are several or because HYDRAMIX_FORCE_GROUP=1 asks for
  // it. Without one the next members are empty.
  bool group = false;
  std::string launcher;        // as messages name it: "torchrun"; empty when there is none
  std::string master_address;  // of rank 0
  uint16_t master_port = 0;
  std::string bind_address;  // where rank 0 listens instead, if not empty
  std::string secret;        // that all ranks share; may be empty
  // torchrun's agent hosts the store, for all attempts.
  bool agent_store = false;
  std::string attempt = "0";  // number of the start, where the store outlives one

  bool hosts_store() const { return rank == 0 && !agent_store; }
};

// The value of an environment variable; nullopt when it is unset.
using EnvironmentGetter = std::function<std::optional<std::string>(const std::string& name)>;

// In this order of precedence:
//   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
//   mpirun    OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK}, or PMI_{RANK,SIZE} and MPI_LOCALRANKID
//   srun      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID
// MASTER_ADDR defaults to the first host of SLURM's node list, or to 127.0.0.1 when all ranks run
// on one machine; MASTER_PORT to a port derived from SLURM's job, or to 29500. HYDRAMIX_BIND,
// HYDRAMIX_SECRET and HYDRAMIX_FORCE_GROUP set the members above. Throws a UsageError that names
// the variables when they are incomplete, not numbers, or contradictory.
LaunchEnvironment launch_environment(const EnvironmentGetter& get);
LaunchEnvironment launch_environment();  // of this process

// The first host of a node list: "node[007-010,12],login" gives "node007".
std::string first_slurm_host(const std::string& node_list);

}  // namespace hydramix
