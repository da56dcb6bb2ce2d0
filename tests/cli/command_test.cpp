// SPDX-License-Identifier: Apache-2.0
// The command line: the options that reach a command, help, and the message and exit code of each
// mistake.
#include "cli/command.h"

#include <fstream>
#include <new>
#include <optional>
#include <sstream>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

std::vector<std::string>& registry() {
  static std::vector<std::string> names = {"attention", "toeplitz"};
  return names;
}

struct MixerOptions {
  int64_t d_state = 64;
  std::string name = "attention";

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("d_state", self.d_state, Range{1, 4096}, "state size N of the scan");
    v("name", self.name, Choices{[] { return registry(); }}, "which mixer");
  }
};

struct CheckOptions {
  MixerOptions mixer;
  std::string file;
  std::vector<std::string> rest;
  int64_t max_length = 1000000;
  double tolerance = 1e-10;
  std::string comment;
  std::vector<int64_t> sizes = {1, 2};
  bool all = false;
  bool shuffle = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, "the mixer");
    v("file", self.file, Positional{}, Required{}, "file to read");
    v("rest", self.rest, Positional{}, "more files");
    v("max_length", self.max_length, Range{1, kInfinity}, "longest sequence | in tokens");
    v("tolerance", self.tolerance, Range{0, kInfinity}, "largest relative error");
    v("comment", self.comment, "free text");
    v("sizes", self.sizes, Range{1, 100},
      "lengths to try, which together should straddle the tile length of the scan");
    v("all", self.all, "check all of them");
    v("shuffle", self.shuffle, "in random order");
  }
};

struct NoOptions {
  template <class Self, class Visitor>
  static void fields(Self&, Visitor&) {}
};

struct TakesReservedName {
  bool config = false;
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("config", self.config, "clashes with --config");
  }
};

struct Result {
  int status;
  std::string out, err;
  std::optional<CheckOptions> got;  // the options of "check"
};

template <class Thrown>
Command throwing(const std::string& name, Thrown thrown) {
  return make_command<NoOptions>(name, "fails",
                                 [thrown](const NoOptions&) -> int { throw thrown; });
}

Result run(std::vector<const char*> words) {
  Result result{};
  const std::vector<Command> commands = {
      make_command<CheckOptions>(
          "check", "compare fast paths with dense matrices",
          [&](const CheckOptions& options) {
            result.got = options;
            return 7;
          },
          "Prints one line per mixer.\n\n  hydramix check data.txt"),
      make_command<NoOptions>("info", "show what is built in", [](const NoOptions&) { return 0; }),
      make_command<TakesReservedName>("clash", "is declared wrongly",
                                      [](const TakesReservedName&) { return 0; }),
      throwing("fail", Error("disk is on fire")),
      throwing("misuse", UsageError("sizes do not fit together")),
      throwing("starve", std::bad_alloc()),
      throwing("torch", std::runtime_error("bad shape\nException raised from mix at mix.cpp:1")),
      throwing("odd", 42),
  };
  words.insert(words.begin(), "hydramix");
  std::ostringstream out, err;
  result.status =
      run_command_line(commands, static_cast<int>(words.size()), words.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(contains(text, part)) << (text)

// Exit code 2, the message on stderr and nothing on stdout.
void expect_refused(const std::vector<const char*>& words, const std::string& message) {
  const Result result = run(words);
  EXPECT_EQ(result.status, 2) << message;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "error: " + message))
      << "expected: " << message << "\ngot: " << result.err;
  EXPECT_FALSE(result.got.has_value());
}

TEST(CommandLine, FlagsAndArgumentsReachTheCommandWhoseResultIsTheExitCode) {
  const Result result = run({"check", "--mixer.d-state", "16", "a.txt", "--max-length=1e3", "b,c",
                             "--tolerance", "-0", "--comment", "two words", "--sizes", "3,4",
                             "--sizes", "[5]", "--all", "--no-shuffle", "[d]"});
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.status, 7);
  ASSERT_TRUE(result.got);
  EXPECT_EQ(result.got->mixer.d_state, 16);
  EXPECT_EQ(result.got->file, "a.txt");
  EXPECT_EQ(result.got->rest, (std::vector<std::string>{"b,c", "[d]"}));
  EXPECT_EQ(result.got->max_length, 1000);
  EXPECT_EQ(result.got->tolerance, 0.0);
  EXPECT_EQ(result.got->comment, "two words");
  EXPECT_EQ(result.got->sizes, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_TRUE(result.got->all);
  EXPECT_FALSE(result.got->shuffle);
}

TEST(CommandLine, ABareFlagTakesTrueAndFalse) {
  EXPECT_TRUE(run({"check", "a", "--all", "true"}).got->all);
  EXPECT_FALSE(run({"check", "a", "--all", "false"}).got->all);
  EXPECT_FALSE(run({"check", "a", "--shuffle", "false"}).got->shuffle);
  EXPECT_FALSE(run({"check", "a", "--all=false"}).got->all);
  EXPECT_TRUE(run({"check", "a", "--all=true"}).got->all);
  // Any other word is an argument.
  const auto result = run({"check", "--all", "a.txt", "--all"});
  EXPECT_TRUE(result.got->all);
  EXPECT_EQ(result.got->file, "a.txt");
  EXPECT_EQ(run({"check", "--all", "--", "true"}).got->file, "true");
}

TEST(CommandLine, ACommandThatNeedsWordsShowsItsUsageWithoutThem) {
  auto command = make_command<NoOptions>(
      "train", "takes days", [](const NoOptions&) { return 7; }, "  hydramix train a.yaml");
  command.needs_words = true;
  command.config_argument = "RECIPE";
  std::ostringstream out, err;
  const char* words[] = {"hydramix", "train"};
  EXPECT_EQ(run_command_line({command}, 2, words, out, err), 2);
  EXPECT_EQ(out.str(), "");
  EXPECT_CONTAINS(err.str(), "error: train: nothing is given.\nusage: hydramix train");
  EXPECT_CONTAINS(err.str(), "  hydramix train a.yaml\n");
}

TEST(CommandLine, AfterTwoDashesEverythingIsAnArgument) {
  const Result result = run({"check", "--", "--all", "--config"});
  ASSERT_TRUE(result.got) << result.err;
  EXPECT_EQ(result.got->file, "--all");
  EXPECT_EQ(result.got->rest, std::vector<std::string>{"--config"});
  EXPECT_FALSE(result.got->all);
}

TEST(CommandLine, AnEmptyValueDoesNotTakeTheNextWord) {
  const Result result = run({"check", "--comment=", "a.txt"});
  ASSERT_TRUE(result.got) << result.err;
  EXPECT_EQ(result.got->comment, "");
  EXPECT_EQ(result.got->file, "a.txt");
  expect_refused({"check", "--all=", "a.txt"}, "--all: got '', expected true or false.");
  expect_refused({"check", "a.txt", "--max-length="}, "--max-length: got '', expected an integer");
}

TEST(CommandLine, FlagsWinOverSetWhichWinsOverFilesWhichWinOverDefaults) {
  const test::TemporaryFolder folder;
  const std::string first = folder / "first.yaml", second = folder / "second.json";
  std::ofstream(first) << "comment: file\nmax_length: 10\ntolerance: 0.5\nall: true\nfile: x\n"
                          "mixer:\n  d_state: 5\n";
  std::ofstream(second) << "{\"tolerance\": 0.25}";
  const Result result =
      run({"check", "--max-length", "30", "--set", "comment=set", "--set", "max_length=20",
           "--config", first.c_str(), "--config", second.c_str(), "--all=false"});
  ASSERT_TRUE(result.got) << result.err;
  EXPECT_EQ(result.got->max_length, 30);
  EXPECT_EQ(result.got->comment, "set");
  EXPECT_EQ(result.got->tolerance, 0.25);
  EXPECT_EQ(result.got->mixer.d_state, 5);
  EXPECT_EQ(result.got->mixer.name, "attention");
  EXPECT_EQ(result.got->file, "x");
  EXPECT_FALSE(result.got->all);
}

TEST(CommandLine, PrintConfigShowsTheResultAndRunsNothing) {
  const Result result = run({"check", "--set", "mixer.d_state=3", "--print-config", "--all"});
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.got);
  const auto json = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(json["mixer"]["d_state"], 3);
  EXPECT_EQ(json["all"], true);
  EXPECT_EQ(json.begin().key(), "mixer");
}

TEST(CommandLine, APrintedConfigCanBeRunAgain) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "config.json";
  std::ofstream(path) << run({"check", "a.txt", "--sizes", "9", "--print-config"}).out;
  const Result result = run({"check", "--config", path.c_str()});
  ASSERT_TRUE(result.got) << result.err;
  EXPECT_EQ(result.got->file, "a.txt");
  EXPECT_EQ(result.got->sizes, std::vector<int64_t>{9});
}

TEST(CommandLine, UnknownOptionsAreNamedWithTheNearest) {
  expect_refused({"check", "--coment=1", "a"}, "unknown option --coment (did you mean --comment?)");
  expect_refused({"check", "--max_length", "3"},
                 "unknown option --max_length (did you mean --max-length?)");
  expect_refused({"check", "a", "--mixer.d-stat", "3"},
                 "unknown option --mixer.d-stat (did you mean --mixer.d-state?)");
  expect_refused({"check", "--no-shufle"},
                 "unknown option --no-shufle (did you mean --no-shuffle?");
  expect_refused({"check", "--zzzzzzzz"}, "unknown option --zzzzzzzz\nRun 'hydramix help check'");
  expect_refused({"check", "-x"}, "unknown option -x");
  expect_refused({"check", "---"}, "unknown option ---");
  expect_refused({"--verison"}, "unknown option --verison (did you mean --version?)");
  expect_refused({"help", "--markdwon"}, "unknown option --markdwon (did you mean --markdown?)");
}

TEST(CommandLine, UnknownCommandsAreNamedWithTheNearest) {
  expect_refused({"chek", "--all"}, "unknown command 'chek' (did you mean 'check'?). Commands: ");
  expect_refused({"help", "inof"}, "unknown command 'inof' (did you mean 'info'?)");
  expect_refused({""}, "unknown command ''");
}

TEST(CommandLine, WrongValuesAreNamedByTheirFlag) {
  expect_refused({"check", "a", "--mixer.d-state", "0"},
                 "--mixer.d-state: got '0', expected an integer (1 to 4096).");
  expect_refused({"check", "a", "--max-length", "3.5"},
                 "--max-length: got '3.5', expected an integer (at least 1).");
  expect_refused({"check", "a", "--all=yes"}, "--all: got 'yes', expected true or false.");
  expect_refused({"check", "a", "--sizes", "1,x"}, "item 2 of --sizes: got 'x', expected an int");
  expect_refused({"check", "a", "--sizes", "[1]: 2"}, "--sizes: got a mapping, expected a list");
  expect_refused({"check", "a", "--set", "mixer.d_stat=1"},
                 "--set mixer.d_stat=1: unknown key 'mixer.d_stat'. Did you mean 'd_state'?");
  expect_refused({"check", "a", "--config", "/nowhere.yaml"}, "/nowhere.yaml: cannot be opened");
  expect_refused({"check", "\xff"}, "FILE: got '\xff', expected a text. It must be UTF-8.");
}

TEST(CommandLine, AValueThatIsOverriddenIsCheckedAllTheSame) {
  expect_refused({"check", "a", "--max-length", "x", "--max-length", "5"}, "--max-length: got 'x'");
  expect_refused({"check", "a", "--set", "max_length=0", "--max-length", "5"},
                 "--set max_length=0: max_length: got '0'");
  EXPECT_EQ(run({"check", "a", "--max-length", "4", "--max-length", "5"}).got->max_length, 5);
}

TEST(CommandLine, MissingAndSurplusWordsAreNamed) {
  expect_refused({"check"}, "FILE: nothing given, expected a text: file to read.");
  expect_refused({"check", "a", "--max-length"},
                 "--max-length needs a value: an integer (at least 1).");
  expect_refused({"check", "a", "--set"}, "--set needs a value");
  expect_refused({"info", "extra"}, "unexpected argument 'extra'");
  expect_refused({"help", "check", "info"}, "help: got 2 words, expected one command");
}

TEST(CommandLine, ChoicesOfARegistryAreAskedWhenTheCommandRuns) {
  expect_refused({"check", "a", "--mixer.name", "butterfly"},
                 "--mixer.name: got 'butterfly', expected one of: attention, toeplitz.");
  registry().push_back("butterfly");
  EXPECT_EQ(run({"check", "a", "--mixer.name", "butterfly"}).got->mixer.name, "butterfly");
  EXPECT_CONTAINS(run({"check", "--help"}).out, "butterfly");
  registry().pop_back();
}

TEST(CommandLine, WhatACommandThrowsBecomesAMessageAndAnExitCode) {
  EXPECT_EQ(run({"fail"}).status, 1);
  EXPECT_EQ(run({"fail"}).err, "error: disk is on fire\n");
  EXPECT_EQ(run({"misuse"}).status, 2);
  EXPECT_EQ(run({"misuse"}).err, "error: sizes do not fit together\n");
  EXPECT_EQ(run({"starve"}).status, 1);
  EXPECT_CONTAINS(run({"starve"}).err, "error: out of memory");
  EXPECT_EQ(run({"torch"}).status, 1);
  EXPECT_EQ(run({"torch"}).err, "error: bad shape\n");
  EXPECT_EQ(run({"odd"}).status, 1);
  EXPECT_EQ(run({"clash"}).status, 1);
  EXPECT_CONTAINS(run({"clash"}).err, "config");
}

TEST(CommandLine, HelpListsTheCommands) {
  const Result result = run({});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_CONTAINS(result.out, "usage: hydramix COMMAND [options]");
  EXPECT_CONTAINS(result.out, "  check                     compare fast paths with dense matrices");
  EXPECT_EQ(run({"help"}).out, result.out);
  EXPECT_EQ(run({"--help"}).out, result.out);
}

TEST(CommandLine, HelpOfACommandShowsDefaultsAndRangesInEightyColumns) {
  const Result result = run({"help", "check"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(run({"check", "--help", "--unknown"}).out, result.out);
  EXPECT_EQ(run({"check", "-h"}).out, result.out);
  EXPECT_CONTAINS(result.out, "usage: hydramix check [options] FILE [REST...]\n");
  EXPECT_CONTAINS(result.out, "\n  hydramix check data.txt\n");
  EXPECT_CONTAINS(result.out, "arguments:\n  FILE                      file to read [required]\n");
  EXPECT_CONTAINS(
      result.out,
      "  --mixer.d-state INTEGER   state size N of the scan [1 to 4096; default: 64]\n");
  EXPECT_CONTAINS(result.out, "[at least 1; default:\n                            1000000]\n");
  EXPECT_CONTAINS(result.out, "--sizes INTEGER,...");
  EXPECT_CONTAINS(result.out, "  --all  ");
  EXPECT_CONTAINS(result.out, "  --[no-]shuffle  ");
  EXPECT_CONTAINS(result.out, "--print-config");
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(CommandLine, MarkdownHoldsATableForEachCommand) {
  const Result result = run({"help", "--markdown"});
  EXPECT_EQ(result.status, 0);
  EXPECT_CONTAINS(result.out, "# Command line\n");
  EXPECT_CONTAINS(result.out, "## check\n\ncompare fast paths with dense matrices\n");
  EXPECT_CONTAINS(result.out, "```\nhydramix check [options] FILE [REST...]\n```");
  EXPECT_CONTAINS(result.out,
                  "| `--mixer.d-state` | integer | `64` | 1 to 4096 | state size N of the scan |");
  EXPECT_CONTAINS(result.out,
                  "| `--max-length` | integer | `1000000` | at least 1 | longest "
                  "sequence \\| in tokens |");
  EXPECT_CONTAINS(result.out, "| `FILE` | text | required |  | file to read |");
  EXPECT_CONTAINS(result.out, "| `--[no-]shuffle` | true/false | `true` |  | in random order |");
  EXPECT_CONTAINS(result.out, "## info\n");
}

TEST(CommandLine, TheVersionIsPrinted) {
  const Result result = run({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "hydramix " HYDRAMIX_VERSION "\n");
}

TEST(CommandLine, AnEmptyArgumentVectorIsHelp) {
  std::ostringstream out, err;
  EXPECT_EQ(run_command_line({}, 0, nullptr, out, err), 0);
  EXPECT_CONTAINS(out.str(), "usage:");
}

}  // namespace
}  // namespace hydramix
