// SPDX-License-Identifier: Apache-2.0
// Launchers: two ranks started as srun starts them, and by mpirun where it is installed. Both must
// arrive at the result of a run alone.
#include <unistd.h>

#include <sstream>
#include <thread>

#include "support/command.h"
#include "support/ports.h"

namespace hydramix {
namespace {

using test::contains;
using test::Result;
using test::run;
using test::TemporaryFolder;

const std::string kLaunched =
    "pretrain --device cpu --model.vocab 300 --model.layers 1 --model.block.d-model 32 "
    "--model.block.headdim 16 --model.block.mixer-options.d-state 8 "
    "--data.evaluation-documents 20 --data.language-documents 50 --train.steps 4 --train.batch 8 "
    "--train.timeout 30 --train.log-every 1 --out ";

// Four steps of float32, with gradients summed in another order: 1e-8 was seen.
constexpr double kRounding = 1e-6;

double last_loss(const std::filesystem::path& out) {
  std::istringstream lines(read_file(out / "metrics.jsonl"));
  double loss = 0;
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find("\"loss\":"); at != line.npos)
      loss = std::stod(line.substr(at + 7));
  return loss;
}

double loss_alone() {
  static const double loss = [] {
    const TemporaryFolder folder;
    const auto r = run(kLaunched + (folder / "run").string());
    EXPECT_EQ(r.code, 0) << r.err;
    return last_loss(folder / "run");
  }();
  return loss;
}

// The variables that srun sets for each task: those that matter, and some that do not.
std::string slurm(int rank, int job) {
  const std::string number = std::to_string(rank);
  return "env SLURM_PROCID=" + number + " SLURM_LOCALID=" + number +
         " SLURM_NTASKS=2 SLURM_NPROCS=2 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_STEP_ID=0 "
         "SLURM_NTASKS_PER_NODE=2 SLURM_JOB_NODELIST=localhost SLURM_STEP_NODELIST=localhost "
         "SLURMD_NODENAME=localhost SLURM_JOB_ID=" +
         std::to_string(job);
}

TEST(Launch, TwoTasksOfSlurmTrainTogether) {
  const TemporaryFolder folder;
  const std::string arguments = kLaunched + (folder / "run").string();
  const int job = test::free_port() + 10000;  // of which the port is 10000 + job % 20000
  Result second{};
  std::thread other([&] { second = run(arguments, slurm(1, job)); });
  const Result first = run(arguments, slurm(0, job));
  other.join();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NEAR(last_loss(folder / "run"), loss_alone(), kRounding);
}

TEST(Launch, MpirunTrainsTwoRanks) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "mpirun is not installed: apt-get install openmpi-bin";
  const TemporaryFolder folder;
  const std::string options =
      std::string(geteuid() == 0 ? "--allow-run-as-root " : "") +
      "--oversubscribe -n 2 -x MASTER_PORT=" + std::to_string(test::free_port());
  const Result r = run(kLaunched + (folder / "run").string(), "mpirun " + options);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NEAR(last_loss(folder / "run"), loss_alone(), kRounding);
  EXPECT_FALSE(contains(r.err, "error"));
}

TEST(Launch, RanksNameTheOptionInWhichTheyDiffer) {
  const TemporaryFolder folder;
  const std::string arguments = kLaunched + (folder / "run").string();
  const int job = test::free_port() + 10000;
  Result second{};
  std::thread other([&] { second = run(arguments + " --train.seed 9", slurm(1, job)); });
  const Result first = run(arguments, slurm(0, job));
  other.join();
  for (const Result& r : {first, second}) {
    EXPECT_EQ(r.code, 1);
    EXPECT_TRUE(contains(r.err, "do not agree on the options: rank 1")) << r.err;
    EXPECT_TRUE(contains(r.err, "has train.seed=9, but rank 0")) << r.err;
  }
}

// The group of a single rank takes the same way as that of several.
TEST(Launch, AGroupOfOneRankTrainsLikeARunAlone) {
  const TemporaryFolder folder;
  const Result r =
      run(kLaunched + (folder / "run").string(),
          "env HYDRAMIX_FORCE_GROUP=1 MASTER_PORT=" + std::to_string(test::free_port()));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NEAR(last_loss(folder / "run"), loss_alone(), kRounding);
}

}  // namespace
}  // namespace hydramix
