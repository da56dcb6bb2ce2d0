// SPDX-License-Identifier: Apache-2.0
#include "dist/launch_environment.h"

#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr uint16_t kDefaultPort = 29500;
// Below Linux's ephemeral ports, which begin at 32768.
constexpr int64_t kFirstSlurmPort = 10000, kSlurmPorts = 20000;

class Reader {
 public:
  explicit Reader(const EnvironmentGetter& get) : get_(get) {}

  // Empty counts as unset: scripts export variables without a value.
  std::optional<std::string> text(const std::string& name) const {
    auto value = get_(name);
    if (value && value->empty()) value.reset();
    return value;
  }

  bool any(const std::vector<std::string>& names) const {
    for (const auto& name : names)
      if (text(name)) return true;
    return false;
  }

  std::optional<int64_t> number(const std::string& name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int64_t result = 0;
    const char* end = value->data() + value->size();
    const auto [stop, failure] = std::from_chars(value->data(), end, result);
    HYDRAMIX_CHECK_USAGE(failure == std::errc() && stop == end && result >= 0,
                         "environment: ", name, "=", in_quotes(*value),
                         " is not a number from 0 on. Start the run with torchrun, mpirun or srun, "
                         "or unset the variable.");
    return result;
  }

  // Throws a UsageError that lists the set and the unset ones, unless all are set.
  void require(const std::string& launcher, const std::vector<std::string>& names) const {
    std::vector<std::string> there, missing;
    for (const auto& name : names) (text(name) ? there : missing).push_back(name);
    HYDRAMIX_CHECK_USAGE(
        missing.empty(), "environment: ", join(there), there.size() == 1 ? " is" : " are",
        " set, as by ", launcher, ", but ", join(missing), missing.size() == 1 ? " is" : " are",
        " not. Start the run with ", launcher, ", set all of them, or unset them to run alone.");
  }

 private:
  const EnvironmentGetter& get_;
};

// The variables of one launcher.
struct Variables {
  std::string launcher, rank, size, local_rank;
};

bool known_by(const Reader& env, const Variables& names) {
  return env.any({names.rank, names.size});
}

void check_same(const Reader& env, const std::string& one, const std::string& other) {
  const auto a = env.number(one), b = env.number(other);
  HYDRAMIX_CHECK_USAGE(!a || !b || a == b, "environment: ", one, "=", *a, " contradicts ", other,
                       "=", *b, ". Unset the pair that is left over from another launcher.");
}

void read_rank(const Reader& env, const Variables& names, LaunchEnvironment& result) {
  env.require(names.launcher, {names.rank, names.size});
  result.launcher = names.launcher;
  result.rank = *env.number(names.rank);
  result.size = *env.number(names.size);
  HYDRAMIX_CHECK_USAGE(result.rank < result.size, "environment: ", names.rank, "=", result.rank,
                       " and ", names.size, "=", result.size,
                       " contradict each other: ranks count from 0 to the size less one. ",
                       "Start the run with ", names.launcher, ", or unset both to run alone.");
  if (result.size > 1) env.require(names.launcher, {names.rank, names.local_rank});
  result.local_rank = env.number(names.local_rank).value_or(0);
}

// MASTER_ADDR, or a default where the launcher does not set it.
std::string master_address(const Reader& env, const LaunchEnvironment& launched) {
  if (const auto address = env.text("MASTER_ADDR")) return *address;
  for (const auto* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto hosts = env.text(list)) return first_slurm_host(*hosts);
  for (const auto* count : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (env.number(count) == launched.size) return "127.0.0.1";
  if (launched.size == 1) return "127.0.0.1";
  throw UsageError(concat("environment: ", launched.launcher, " started ", launched.size,
                          " ranks, but MASTER_ADDR, the address of rank 0's machine, is not set. "
                          "Export it to all ranks (with Open MPI: mpirun -x MASTER_ADDR=host)."));
}

uint16_t master_port(const Reader& env) {
  int64_t port = kDefaultPort;
  if (const auto given = env.number("MASTER_PORT")) {
    port = *given;
    HYDRAMIX_CHECK_USAGE(port >= 1 && port <= 65535, "environment: MASTER_PORT=", port,
                         " is not a port; give one from 1 to 65535.");
  } else if (const auto job = env.number("SLURM_JOB_ID")) {
    port = kFirstSlurmPort + *job % kSlurmPorts;
  }
  return static_cast<uint16_t>(port);
}

}  // namespace

std::string first_slurm_host(const std::string& node_list) {
  const auto bracket = node_list.find('[');
  const auto comma = node_list.find(',');
  if (comma < bracket) return node_list.substr(0, comma);
  if (bracket == std::string::npos) return node_list;
  const auto closing = node_list.find(']', bracket);
  // node[007-010,12]-ib: the first number with its zeros, then the text after the bracket.
  const auto number_end = node_list.find_first_of("-,]", bracket);
  HYDRAMIX_CHECK_USAGE(closing != std::string::npos && number_end > bracket + 1,
                       "environment: SLURM's node list ", in_quotes(node_list),
                       " cannot be read. Set MASTER_ADDR to the address of rank 0's machine.");
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, number_end - bracket - 1) +
         first_slurm_host(node_list.substr(closing + 1));
}

LaunchEnvironment launch_environment(const EnvironmentGetter& get) {
  const Reader env(get);
  const Variables torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
  const Variables open_mpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK"};
  const Variables pmi{"mpirun", "PMI_RANK", "PMI_SIZE",
                      env.text("MPI_LOCALRANKID") ? "MPI_LOCALRANKID" : "SLURM_LOCALID"};
  const Variables slurm{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

  LaunchEnvironment result;
  if (known_by(env, torchrun) || env.text(torchrun.local_rank)) {
    read_rank(env, torchrun, result);
    // mpirun may have started torchrun, once per machine; then torchrun's variables count.
    if (!env.text("TORCHELASTIC_RUN_ID"))
      for (const auto& mpi : {open_mpi, pmi}) {
        check_same(env, torchrun.rank, mpi.rank);
        check_same(env, torchrun.size, mpi.size);
      }
    if (result.size > 1) env.require("torchrun", {"RANK", "MASTER_ADDR", "MASTER_PORT"});
    result.agent_store = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    result.attempt = env.text("TORCHELASTIC_RESTART_COUNT").value_or("0");
  } else if (known_by(env, open_mpi)) {
    read_rank(env, open_mpi, result);
  } else if (known_by(env, pmi)) {
    read_rank(env, pmi, result);
  } else if (env.text(slurm.rank) && env.text(slurm.size)) {
    // Only srun sets both. salloc's shell may have the size, sbatch's script the rank, and neither
    // is a rank of a run.
    read_rank(env, slurm, result);
  }
  const auto force = env.text("HYDRAMIX_FORCE_GROUP").value_or("0");
  HYDRAMIX_CHECK_USAGE(force == "0" || force == "1",
                       "environment: HYDRAMIX_FORCE_GROUP=", in_quotes(force),
                       " is neither 1, to form a group of a single rank, nor 0.");
  result.group = result.size > 1 || force == "1";
  if (result.group) {
    result.master_address = master_address(env, result);
    result.master_port = master_port(env);
    result.bind_address = env.text("HYDRAMIX_BIND").value_or("");
    result.secret = env.text("HYDRAMIX_SECRET").value_or("");
  }
  return result;
}

LaunchEnvironment launch_environment() {
  return launch_environment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace hydramix
