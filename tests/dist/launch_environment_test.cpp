// SPDX-License-Identifier: Apache-2.0
// The environment that each launcher sets, and every way in which it can be wrong.
#include "dist/launch_environment.h"

#include <map>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using Variables = std::map<std::string, std::string>;

LaunchEnvironment read(const Variables& variables) {
  return launch_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

Variables torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "node3"},
          {"MASTER_PORT", "1234"}};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(LaunchEnvironment, IsAloneWithoutALauncher) {
  const auto alone = read({});
  EXPECT_EQ(alone.size, 1);
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.launcher, "");
  // Set in many shells, and no evidence of a launcher.
  EXPECT_EQ(read({{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "1"}}).size, 1);
  EXPECT_EQ(read({{"RANK", ""}, {"WORLD_SIZE", ""}}).size, 1);
}

TEST(LaunchEnvironment, ReadsTorchrun) {
  const auto launched = read(torchrun());
  EXPECT_EQ(launched.rank, 5);
  EXPECT_EQ(launched.size, 8);
  EXPECT_EQ(launched.local_rank, 1);
  EXPECT_EQ(launched.master_address, "node3");
  EXPECT_EQ(launched.master_port, 1234);
  EXPECT_FALSE(launched.hosts_store());
  EXPECT_TRUE(read(with(torchrun(), {{"RANK", "0"}})).hosts_store());
}

TEST(LaunchEnvironment, LeavesTheStoreToTorchrunsAgent) {
  const auto launched = read(with(torchrun(), {{"RANK", "0"},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                               {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_FALSE(launched.hosts_store());
  EXPECT_EQ(launched.attempt, "2");
}

TEST(LaunchEnvironment, FormsAGroupOfOneRankOnRequest) {
  EXPECT_TRUE(read(torchrun()).group);
  const Variables single = with(torchrun(), {{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_FALSE(read(single).group);
  EXPECT_EQ(read(single).master_address, "");
  const auto forced = read(with(single, {{"HYDRAMIX_FORCE_GROUP", "1"}}));
  EXPECT_TRUE(forced.group);
  EXPECT_EQ(forced.master_address, "node3");
  const auto alone = read({{"HYDRAMIX_FORCE_GROUP", "1"}});
  EXPECT_TRUE(alone.group);
  EXPECT_EQ(alone.master_address, "127.0.0.1");
  EXPECT_FALSE(read({{"HYDRAMIX_FORCE_GROUP", "0"}}).group);
  EXPECT_THROW_WITH(read({{"HYDRAMIX_FORCE_GROUP", "yes"}}), UsageError,
                    "HYDRAMIX_FORCE_GROUP=\"yes\" is neither 1");
}

TEST(LaunchEnvironment, ReadsTheSecretAndTheAddressToListenAt) {
  const auto launched =
      read(with(torchrun(), {{"HYDRAMIX_SECRET", "swordfish"}, {"HYDRAMIX_BIND", "10.0.0.7"}}));
  EXPECT_EQ(launched.secret, "swordfish");
  EXPECT_EQ(launched.bind_address, "10.0.0.7");
  EXPECT_EQ(read(torchrun()).secret, "");
}

TEST(LaunchEnvironment, NamesWhatIsMissingOfTorchrun) {
  for (const auto& [name, value] : torchrun())
    EXPECT_THROW_WITH(read(without(torchrun(), name)), UsageError, name);
  EXPECT_THROW_WITH(read({{"RANK", "0"}}), UsageError,
                    "RANK is set, as by torchrun, but WORLD_SIZE is not");
  EXPECT_THROW_WITH(read({{"LOCAL_RANK", "0"}}), UsageError, "RANK, WORLD_SIZE");
}

TEST(LaunchEnvironment, RefusesWhatIsNoNumberOrOutOfRange) {
  for (const std::string bad : {"x", "-1", "1x", " 1", "99999999999999999999"})
    EXPECT_THROW_WITH(read(with(torchrun(), {{"RANK", bad}})), UsageError, "RANK=\"" + bad + "\"");
  EXPECT_THROW_WITH(read(with(torchrun(), {{"RANK", "8"}})), UsageError,
                    "RANK=8 and WORLD_SIZE=8 contradict each other");
  EXPECT_THROW_WITH(read(with(torchrun(), {{"MASTER_PORT", "65536"}})), UsageError,
                    "MASTER_PORT=65536 is not a port");
  EXPECT_THROW_WITH(read({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), UsageError, "WORLD_SIZE=0");
}

TEST(LaunchEnvironment, ReadsOpenMpiOnOneMachine) {
  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const auto launched = read(mpi);
  EXPECT_EQ(launched.rank, 1);
  EXPECT_EQ(launched.size, 2);
  EXPECT_EQ(launched.local_rank, 1);
  EXPECT_EQ(launched.master_address, "127.0.0.1");
  EXPECT_EQ(launched.master_port, 29500);
  EXPECT_EQ(read(with(mpi, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}})).master_port, 7);
  // On several machines the address of rank 0 must be given.
  EXPECT_THROW_WITH(read(with(mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})), UsageError,
                    "MASTER_ADDR");
  EXPECT_THROW_WITH(read(without(mpi, "OMPI_COMM_WORLD_SIZE")), UsageError, "OMPI_COMM_WORLD_SIZE");
}

TEST(LaunchEnvironment, ReadsPmi) {
  const Variables pmi = {
      {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}};
  const auto launched = read(pmi);
  EXPECT_EQ(launched.rank, 3);
  EXPECT_EQ(launched.local_rank, 3);
  EXPECT_EQ(launched.master_address, "127.0.0.1");
}

TEST(LaunchEnvironment, RefusesTwoLaunchersThatContradictEachOther) {
  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "8"}};
  EXPECT_THROW_WITH(read(with(torchrun(), mpi)), UsageError,
                    "RANK=5 contradicts OMPI_COMM_WORLD_RANK=1");
  EXPECT_EQ(read(with(with(torchrun(), mpi), {{"OMPI_COMM_WORLD_RANK", "5"}})).rank, 5);
  // mpirun started torchrun, once per machine.
  EXPECT_EQ(read(with(with(torchrun(), mpi), {{"TORCHELASTIC_RUN_ID", "x"}})).rank, 5);
}

TEST(LaunchEnvironment, ReadsSlurm) {
  const Variables slurm = {{"SLURM_PROCID", "4"},
                           {"SLURM_NTASKS", "6"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_JOB_NODELIST", "gpu[07-09],x"},
                           {"SLURM_JOB_ID", "1234567"}};
  const auto launched = read(slurm);
  EXPECT_EQ(launched.rank, 4);
  EXPECT_EQ(launched.size, 6);
  EXPECT_EQ(launched.local_rank, 1);
  EXPECT_EQ(launched.master_address, "gpu07");
  EXPECT_EQ(launched.master_port, 10000 + 1234567 % 20000);
  EXPECT_EQ(read(with(slurm, {{"MASTER_ADDR", "here"}})).master_address, "here");
  EXPECT_EQ(read(with(slurm, {{"SLURM_STEP_NODELIST", "gpu08"}})).master_address, "gpu08");
  EXPECT_THROW_WITH(read(without(slurm, "SLURM_LOCALID")), UsageError, "SLURM_LOCALID");
  // The script of sbatch and the shell of salloc are no ranks.
  EXPECT_EQ(read(without(slurm, "SLURM_NTASKS")).size, 1);
  EXPECT_EQ(read(without(slurm, "SLURM_PROCID")).size, 1);
}

TEST(LaunchEnvironment, FindsTheFirstHostOfANodeList) {
  EXPECT_EQ(first_slurm_host("one"), "one");
  EXPECT_EQ(first_slurm_host("one,two"), "one");
  EXPECT_EQ(first_slurm_host("node[007-010,12],login"), "node007");
  EXPECT_EQ(first_slurm_host("a,node[1-2]"), "a");
  EXPECT_EQ(first_slurm_host("rack[1-2]node[03,5]"), "rack1node03");
  EXPECT_EQ(first_slurm_host("n[5]-ib,m"), "n5-ib");
  EXPECT_THROW_WITH(first_slurm_host("node[1-2"), UsageError, "MASTER_ADDR");
  EXPECT_THROW_WITH(first_slurm_host("node[]"), UsageError, "MASTER_ADDR");
}

}  // namespace
}  // namespace hydramix
