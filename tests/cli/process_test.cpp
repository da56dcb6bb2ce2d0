// SPDX-License-Identifier: Apache-2.0
// The built command: exit codes, stdout and stderr, and the files it writes. What depends on the
// environment or on the process itself runs as one.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "hydramix/safetensors.h"
#include "support/in_process.h"

namespace hydramix {
namespace {

const std::string kGolden = std::string(HYDRAMIX_SOURCE_DIR) + "/tests/golden/";

using test::contains;
using test::run;
using test::run_here;

TEST(Check, PassesAGoldenCaseAndPrintsOneLinePerTensor) {
  const auto r = run("check " + kGolden + "hydra_g1_L17.safetensors " + kGolden +
                     "mixer_cauchy_dd.safetensors");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "grad.A_log"));
  EXPECT_TRUE(contains(r.out, "aux.M"));
  EXPECT_TRUE(contains(r.out, "2 cases, 21 tensors compared: all within tolerance")) << r.out;
}

TEST(Check, ExitsWithOneWhenATensorIsOff) {
  const auto r = run_here("check --tolerance 0 " + kGolden + "hydra_g1_L17.safetensors");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.out, "OFF"));
}

TEST(Check, WritesWhatItComputedUnderTheSameNames) {
  test::TemporaryFolder folder;
  const auto file = folder / "computed.safetensors";
  EXPECT_EQ(
      run_here("check --write " + file.string() + " " + kGolden + "bert_hydra_2layer.safetensors")
          .code,
      0);
  const auto bytes = read_file(file);
  for (const std::string name :
       {"\"logits\"", "\"loss\"", "\"grad.bert.embeddings.word_embeddings.weight\""})
    EXPECT_TRUE(contains(bytes.substr(0, 10000), name)) << name;
}

TEST(Check, ComparesThePublishedToeplitzWeightsOnRequest) {
  const auto r =
      run_here("check --reference-toeplitz " + kGolden + "mixer_toeplitz_di.safetensors");
  EXPECT_EQ(r.code, 1) << "turned weights must not give the corrected output";
}

TEST(Check, BadFilesAreErrorsThatNameThem) {
  test::TemporaryFolder folder;
  EXPECT_EQ(run_here("check " + (folder / "absent.safetensors").string()).code, 1);
  std::ofstream(folder / "lies.safetensors") << "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
  const auto r = run_here("check " + (folder / "lies.safetensors").string());
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
  EXPECT_TRUE(contains(r.err, "lies.safetensors")) << r.err;
}

TEST(Check, NothingToCompareIsNoAgreement) {
  test::TemporaryFolder folder;
  const auto golden = safetensors::File::open(kGolden + "hydra_g1_L2.safetensors");
  std::vector<safetensors::TensorView> inputs;  // the weights and x, but no output
  for (const auto& tensor : golden.tensors())
    if (tensor.name == "x" || tensor.name.starts_with("param.")) inputs.push_back(tensor);
  const auto file = (folder / "inputs.safetensors").string();
  safetensors::write(file, inputs, golden.metadata());
  const auto r = run_here("check " + file);
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "holds no output to compare with")) << r.err;
  EXPECT_EQ(run_here("check --write " + (folder / "out.safetensors").string() + " " + file).code,
            0);
}

TEST(Check, UsageErrorsExitWithTwo) {
  EXPECT_EQ(run_here("check").code, 2);
  EXPECT_EQ(run_here("check --tolerance nan x").code, 2);
  const auto two = run_here("check --write o.safetensors a.safetensors b.safetensors");
  EXPECT_EQ(two.code, 2);
  EXPECT_TRUE(contains(two.err, "--write takes the results of one case")) << two.err;
  const auto slip = run_here("check --tolerence 1 x");
  EXPECT_EQ(slip.code, 2);
  EXPECT_TRUE(contains(slip.err, "--tolerance")) << slip.err;
  const auto command = run_here("chek x");
  EXPECT_EQ(command.code, 2);
  EXPECT_TRUE(contains(command.err, "did you mean 'check'?")) << command.err;
}

TEST(Environment, HydramixIsaForcesAnInstructionSet) {
  const auto check = "check " + kGolden + "hydra_g1_L17.safetensors";
  const auto nonsense = run(check, "HYDRAMIX_ISA=NONSENSE");
  EXPECT_EQ(nonsense.code, 2);
  EXPECT_TRUE(
      contains(nonsense.err, "HYDRAMIX_ISA: this machine and this build have no 'NONSENSE'"))
      << nonsense.err;
  EXPECT_TRUE(contains(nonsense.err, "unset HYDRAMIX_ISA")) << nonsense.err;
  // The error lists the available sets; the last is the smallest, and works.
  std::smatch list;
  ASSERT_TRUE(std::regex_search(nonsense.err, list, std::regex("they have .*?(\\w+)\\. Name one")))
      << nonsense.err;
  EXPECT_EQ(run(check, "HYDRAMIX_ISA=" + list[1].str()).code, 0) << list[1];
  EXPECT_EQ(run(check, "HYDRAMIX_ISA=").code, 0) << "empty is unset";
}

TEST(Info, TellsBuildMixersAndOneMixer) {
  const auto build = run("info");
  EXPECT_EQ(build.code, 0);
  for (const std::string line : {"LibTorch", "BLAS", "threads", "instruction set",
                                 "GFLOP/s on one core", "% of its FMA peak"})
    EXPECT_TRUE(contains(build.out, line));
  const auto mixers = run("info mixers");
  EXPECT_TRUE(contains(mixers.out, "quasiseparable_dd"));
  // The paper's tick beside ours, and why they differ.
  EXPECT_TRUE(contains(mixers.out,
                       "linformer: the paper's table 1 ticks it as sequence aligned, our "
                       "experiment says no: each projected key"));
  EXPECT_TRUE(contains(run("info mixer hydra").out, "options          d_state, groups,"));
  EXPECT_TRUE(contains(run("info mixer hydra").out, "fc_D.weight"));
  const auto slip = run("info mixer hydar");
  EXPECT_EQ(slip.code, 2);
  EXPECT_TRUE(contains(slip.err, "Did you mean 'hydra'?")) << slip.err;
  EXPECT_EQ(run("info mixrs").code, 2);
}

TEST(Matrix, WritesEveryFormat) {
  test::TemporaryFolder folder;
  const auto draw = [&](const std::string& what, const std::string& name) {
    EXPECT_EQ(run_here("matrix " + what + " --length 20 --out " + (folder / name).string()).code, 0)
        << what;
    return read_file(folder / name);
  };
  EXPECT_TRUE(draw("hydra", "m.png").starts_with("\x89PNG"));
  EXPECT_TRUE(contains(draw("hydra --heads 2", "m.svg"), "hydra, head 2"));
  EXPECT_TRUE(contains(draw("hydra --heads 3", "m.npy"), "'shape': (3, 20, 20)"));
  EXPECT_TRUE(contains(draw("fnet", "m.safetensors"), R"("shape":[2,20,20])"));
  const auto gallery = draw("--all", "all.svg");
  for (const std::string name : {"toeplitz_dd", "quasiseparable_di", "fnet, matrix 2"})
    EXPECT_TRUE(contains(gallery, name));
}

TEST(Info, GeneratesTheCommittedPageOfMixers) {
  const auto r = run_here("info mixers --markdown");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, read_file(std::string(HYDRAMIX_SOURCE_DIR) + "/docs/mixers.md"))
      << "docs/mixers.md is not up to date: ./hydramix info mixers --markdown > docs/mixers.md";
  EXPECT_EQ(run_here("info --markdown").code, 2);
}

// The mixers whose section of docs/mixers.md names this option.
std::vector<std::string> mixers_with_option(const std::string& option) {
  std::istringstream page(read_file(std::string(HYDRAMIX_SOURCE_DIR) + "/docs/mixers.md"));
  std::vector<std::string> names;
  std::string mixer;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("### ")) mixer = line.substr(4);
    if (line.starts_with("| options |") && contains(line, "`" + option + "`"))
      names.push_back(mixer);
  }
  return names;
}

TEST(Info, ThePageOfMixersNamesTheOptionsThatEachReads) {
  for (const auto& [option, mixers] : std::map<std::string, std::vector<std::string>>{
           {"filter_features", {"hyena", "hyena_bidirectional", "m2_conv"}},
           {"order", {"hyena", "hyena_bidirectional"}},
           {"grid_width", {"s4nd"}},
           {"projected_length", {"linformer"}},
           {"spectrum", {"h3", "s4d", "s4d_bidirectional", "s4nd"}},
           {"kaleidoscope_width", {"kaleidoscope"}},
           {"kaleidoscope_expansion", {"kaleidoscope"}}})
    EXPECT_EQ(mixers_with_option(option), mixers) << option;
}

TEST(Info, AlignmentUpToNormalisersHasAStar) {
  const auto table = run_here("info mixers").out;
  for (const std::string name : {"attention", "attention_dd", "linear_attention"})
    EXPECT_TRUE(std::regex_search(table, std::regex("\n" + name + " .* yes\\* +yes +yes ")))
        << name;
  EXPECT_TRUE(std::regex_search(table, std::regex("\nattention_causal .* yes +yes +yes ")));
  EXPECT_TRUE(contains(table, "\nyes*: up to the rows' normalisers")) << table;
}

TEST(Info, SaysWithWhichOptionsAMixerIsThePublishedOne) {
  const auto out = run_here("info mixer lru").out;
  EXPECT_TRUE(contains(out, "as published     style=plain expand=2 headdim=2\n")) << out;
}

TEST(Matrix, PrintsAndDrawsRanks) {
  test::TemporaryFolder folder;
  const auto file = (folder / "r.svg").string();
  const auto r = run_here("matrix hydra --ranks --length 20 --d-state 3 --out " + file);
  ASSERT_EQ(r.code, 0) << r.err;
  // Rank 1 at both ends, at most N = 3 between them; the free diagonal adds one.
  EXPECT_TRUE(std::regex_search(
      r.out, std::regex("hydra +M\\[i:, :i\\] +1 +3( +3)+ +1 +3 +4\n +M\\[:i, i:\\] +1 +3")))
      << r.out;
  EXPECT_TRUE(contains(read_file(file), "above: M[:i, i:] (at most 3)"));
  const auto causal = run_here("matrix semiseparable --ranks --length 9");
  EXPECT_TRUE(std::regex_search(causal.out, std::regex("M\\[:i, i:\\]( +0)+ +1\n"))) << causal.out;
  for (const std::string core : {"s6", "gla"}) {  // of state size N, and of qk_dim
    const auto any = run_here("matrix bidirectional --ranks --length 12 --d-state 2 --qk-dim 2 " +
                              ("--set combine=quasi --set core=" + core));
    EXPECT_TRUE(std::regex_search(any.out, std::regex("M\\[i:, :i\\] +1 +2( +2)+ +1 +2 +3\n")))
        << any.out;
  }
  EXPECT_EQ(run_here("matrix hydra --ranks --out r.png").code, 2);
  EXPECT_EQ(run_here("matrix hydra --ranks --length 1").code, 2);
}

TEST(Matrix, WritesAFolderWithOnePicturePerMixer) {
  test::TemporaryFolder folder;
  const auto r = run_here("matrix --all --length 6 --out " + folder.path().string() + "/");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "hydra.svg"));
  EXPECT_FALSE(std::filesystem::exists(folder / "mlp_mixer_nonlinear.svg"));
  const auto none = run_here("matrix mlp_mixer_nonlinear --out " + (folder / "m.svg").string());
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(contains(none.err, "this mixer is no matrix")) << none.err;
}

TEST(Matrix, EqualSeedsGiveEqualFiles) {
  test::TemporaryFolder folder;
  const auto draw = [&](const std::string& seed, const std::string& name) {
    run_here("matrix cauchy_dd --length 9 --seed " + seed + " --out " + (folder / name).string());
    return read_file(folder / name);
  };
  EXPECT_EQ(draw("5", "a.npy"), draw("5", "b.npy"));
  EXPECT_NE(draw("6", "c.npy"), draw("5", "d.npy"));
}

TEST(Matrix, UsageErrorsExitWithTwoAndWriteNothing) {
  test::TemporaryFolder folder;
  const auto file = (folder / "m.jpg").string();
  for (const auto& arguments : std::vector<std::string>{
           "matrix hydra --out " + file, "matrix hydra", "matrix --out " + file,
           "matrix hydra --all --out " + file, "matrix hydar --out m.png",
           "matrix hydra --length 0 --out m.png", "matrix --all --out m.npy",
           "matrix hydra --groups 3 --out m.png"}) {
    const auto r = run_here(arguments);
    EXPECT_EQ(r.code, 2) << arguments << ": " << r.err;
    EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(run_here("matrix hydra --out " + (folder / "no").string() + "/m.png").code, 1);
}

TEST(Config, PrintsAndReadsBackItsOwnOptions) {
  test::TemporaryFolder folder;
  const auto printed =
      run_here("matrix hydra --length 12 --set d_state=7 --out m.png --print-config");
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_TRUE(contains(printed.out, "\"d_state\": 7"));
  std::ofstream(folder / "c.json") << printed.out;
  const auto again =
      run_here("matrix --config " + (folder / "c.json").string() + " --print-config");
  EXPECT_EQ(again.out, printed.out);
  std::ofstream(folder / "bad.yaml") << "length: 12\n\nd_stat: 7\n";
  const auto bad = run_here("matrix --config " + (folder / "bad.yaml").string());
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(contains(bad.err, "bad.yaml:3: unknown key 'd_stat'")) << bad.err;
}

TEST(Help, GeneratesTheCommittedCommandReference) {
  const auto r = run("help --markdown");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, read_file(std::string(HYDRAMIX_SOURCE_DIR) + "/docs/cli.md"))
      << "docs/cli.md is not up to date: ./hydramix help --markdown > docs/cli.md";
  EXPECT_TRUE(
      std::regex_match(run("--version").out, std::regex("hydramix [0-9]+\\.[0-9]+\\.[0-9]+\n")));
}

TEST(Matrix, RefusesWhatWouldNotFitInMemory) {
  const auto r = run_here("matrix dense --length 4096 --heads 256 --out q.npy");
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, "256 matrices of 4096 x 4096")) << r.err;
}

// Runs `info mixers` with this output, which it closes. Returns the exit code, or minus the signal.
int run_into(int output) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);  // the test may have been started with it ignored
    dup2(output, STDOUT_FILENO);
    execl(HYDRAMIX_COMMAND, HYDRAMIX_COMMAND, "info", "mixers", nullptr);
    _exit(127);
  }
  close(output);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Output, AReaderThatHasLeftIsNoErrorButAFullDiskIs) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(run_into(ends[1]), 0);
  EXPECT_EQ(run_into(open("/dev/full", O_WRONLY)), 1);
}

}  // namespace
}  // namespace hydramix
