// SPDX-License-Identifier: Apache-2.0
// Options: every source sets the same fields, and every wrong value is refused with a message that
// names the position, the key, the given value and the allowed values.
#include "hydramix/options.h"

#include <cmath>
#include <fstream>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

std::vector<std::string>& registry() {
  static std::vector<std::string> names = {"attention", "toeplitz"};
  return names;
}
std::vector<std::string> registered() { return registry(); }

struct BlockOptions {
  bool causal = false;
  double dropout = 0.1;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("causal", self.causal, "mask the future");
    v("dropout", self.dropout, Range{0.0, 1.0}, "share of zeroed activations");
  }
};

struct MixerOptions {
  int64_t d_state = 64;
  std::string name = "attention";
  BlockOptions block;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("d_state", self.d_state, Range{1, 4096}, "state size N of the scan");
    v("name", self.name, Choices{registered}, "which mixer");
    v("block", self.block, "the block around it");
  }
};

struct Options {
  MixerOptions mixer;
  int64_t seed = 0;
  double clip = kInfinity;
  std::string comment;
  std::string device = "cpu";
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> rates;
  std::vector<std::string> tasks;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, "the mixer");
    v("seed", self.seed, "any integer");
    v("clip", self.clip, Range{0, kInfinity}, "largest gradient norm");
    v("comment", self.comment, "free text");
    v("device", self.device, Choices{"cpu", "cuda"}, "where to run");
    v("sizes", self.sizes, Range{1, 100}, "lengths to try");
    v("rates", self.rates, "learning rates");
    v("tasks", self.tasks, Choices{std::vector<std::string>{"cola", "mnli"}}, "what to learn");
  }
};

Options parsed(const std::string& text) {
  Options options;
  parse_yaml(options, text, "recipe.yaml");
  return options;
}

#define EXPECT_REFUSED(text, message) EXPECT_THROW_WITH(parsed(text), UsageError, message)

TEST(Options, YamlSetsTheKeysItNamesAndLeavesTheOthers) {
  const Options options = parsed(
      "mixer:\n  d_state: 16\n  block: {causal: true}\n"
      "seed: -3\nclip: 2.5\ncomment: 'two words'\nsizes: [3, 4]\nrates: [1e-3, .5, 2]\n"
      "tasks:\n  - mnli\n  - cola\n");
  EXPECT_EQ(options.mixer.d_state, 16);
  EXPECT_EQ(options.mixer.name, "attention");
  EXPECT_TRUE(options.mixer.block.causal);
  EXPECT_EQ(options.mixer.block.dropout, 0.1);
  EXPECT_EQ(options.seed, -3);
  EXPECT_EQ(options.clip, 2.5);
  EXPECT_EQ(options.comment, "two words");
  EXPECT_EQ(options.sizes, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(options.rates, (std::vector<double>{1e-3, 0.5, 2.0}));
  EXPECT_EQ(options.tasks, (std::vector<std::string>{"mnli", "cola"}));
}

TEST(Options, EmptyFilesAndEmptySectionsLeaveTheDefaults) {
  for (const char* text : {"", "# nothing\n", "---\n", "{}", "mixer:\n", "mixer:\n  block:\n"})
    EXPECT_EQ(to_json(parsed(text)), to_json(Options())) << text;
}

TEST(Options, JsonIsAccepted) {
  const Options options =
      parsed("{\"mixer\":{\"d_state\":8},\n\t\"rates\":[1.5,-2],\"comment\":\"a\\/b \\u00e9\"}");
  EXPECT_EQ(options.mixer.d_state, 8);
  EXPECT_EQ(options.rates, (std::vector<double>{1.5, -2}));
  EXPECT_EQ(options.comment, "a/b \xc3\xa9");
}

TEST(Options, JsonWrittenIsReadBackUnchanged) {
  Options options;
  options.seed = std::numeric_limits<int64_t>::min();
  options.rates = {-kInfinity, kInfinity, 0.1, 1e-300, 5.0, -0.0};
  options.comment = "\"quotes\", {braces}: # [not a comment]\ttab\nline \x01 \x7f & * ! % @ `";
  options.mixer.block.causal = true;
  for (int indent : {-1, 2}) {
    const std::string text = to_json(options).dump(indent);
    EXPECT_EQ(to_json(parsed(text)).dump(indent), text);
  }
}

TEST(Options, JsonIsNestedInDeclarationOrderWithInfinitiesAsTexts) {
  EXPECT_EQ(to_json(Options()).dump(),
            R"({"mixer":{"d_state":64,"name":"attention","block":{"causal":false,"dropout":0.1}},)"
            R"("seed":0,"clip":"inf","comment":"","device":"cpu","sizes":[1,2],"rates":[],)"
            R"("tasks":[]})");
}

TEST(Options, DescribeListsPathTypeDefaultAllowedAndHelp) {
  const auto all = describe(Options());
  ASSERT_EQ(all.size(), 11u);
  EXPECT_EQ(all[0].path, "mixer.d_state");
  EXPECT_EQ(all[0].type, "integer");
  EXPECT_EQ(all[0].default_text, "64");
  EXPECT_EQ(all[0].allowed, "1 to 4096");
  EXPECT_EQ(all[0].help, "state size N of the scan");
  EXPECT_EQ(all[1].allowed, "attention, toeplitz");
  EXPECT_EQ(all[2].type, "true/false");
  EXPECT_EQ(all[3].path, "mixer.block.dropout");
  EXPECT_EQ(all[5].default_text, "inf");
  EXPECT_EQ(all[5].allowed, "at least 0");
  EXPECT_EQ(all[6].allowed, "");
  EXPECT_EQ(all[8].type, "list of integers");
  EXPECT_EQ(all[8].default_text, "1,2");
}

TEST(Options, UnknownKeysAreNamedWithTheNearestAndAllAllowedOnes) {
  EXPECT_REFUSED("seed: 1\nmixer:\n  d_stat: 3\n",
                 "recipe.yaml:3: unknown key 'mixer.d_stat'. Did you mean 'd_state'? Allowed keys "
                 "here: d_state, name, block");
  EXPECT_REFUSED("mixer: {block: {xyzzy: 1}}", "unknown key 'mixer.block.xyzzy'. Allowed keys");
  EXPECT_REFUSED("<<: {seed: 1}", "unknown key '<<'");
}

TEST(Options, DuplicateKeysAreRefused) {
  EXPECT_REFUSED("mixer:\n  d_state: 3\n  name: toeplitz\n  d_state: 4\n",
                 "recipe.yaml:4: key 'mixer.d_state' is given twice");
  EXPECT_REFUSED("{\"seed\": 1, \"seed\": 1}", "key 'seed' is given twice");
}

TEST(Options, IntegersAreStrict) {
  EXPECT_EQ(parsed("seed: 1e6").seed, 1000000);
  EXPECT_EQ(parsed("seed: -2E+3").seed, -2000);
  EXPECT_EQ(parsed("seed: 0e999").seed, 0);
  EXPECT_EQ(parsed("seed: +7").seed, 7);
  EXPECT_EQ(parsed("seed: -9223372036854775808").seed, std::numeric_limits<int64_t>::min());
  for (const char* text : {"3.5", "12abc", "1_000", "0x10", "010", "1.5e3", "1e-3", "1e", "e5",
                           "--3", "+-3", "true", "inf", "' 3'", "1e19"})
    EXPECT_REFUSED(std::string("seed: ") + text, "recipe.yaml:1: seed: got");
  EXPECT_REFUSED("seed: \"12\"", "seed: got \"12\" in quotes, expected an integer.");
  EXPECT_REFUSED("seed: 9223372036854775808",
                 "seed: got '9223372036854775808', expected an integer. It must fit in 64 bits.");
  EXPECT_REFUSED("mixer: {d_state: 0}",
                 "recipe.yaml:1: mixer.d_state: got '0', expected an integer (1 to 4096).");
  EXPECT_REFUSED("mixer: {d_state: 4097}", "got '4097', expected an integer (1 to 4096).");
}

TEST(Options, NumbersMayBeInfiniteButNeverNan) {
  for (const char* text : {"inf", "+inf", ".inf", "\"inf\""})
    EXPECT_EQ(parsed(std::string("clip: ") + text).clip, kInfinity) << text;
  EXPECT_EQ(parsed("rates: [-inf, -.inf]").rates, (std::vector<double>{-kInfinity, -kInfinity}));
  for (const char* text : {"nan", ".nan", "-nan", "1,5", "0x1p3", "1e999", "1.2.3", "+-1"})
    EXPECT_REFUSED(std::string("clip: ") + text, "clip: got '");
  EXPECT_REFUSED("clip: -1e-9", "clip: got '-1e-9', expected a number (at least 0).");
  EXPECT_REFUSED("clip: \"1.5\"", "got \"1.5\" in quotes, expected a number");
}

TEST(Options, BooleansAreTrueOrFalseOnly) {
  EXPECT_FALSE(parsed("mixer: {block: {causal: false}}").mixer.block.causal);
  for (const char* text : {"yes", "no", "on", "1", "True"})
    EXPECT_REFUSED(concat("mixer: {block: {causal: ", text, "}}"),
                   concat("mixer.block.causal: got '", text, "', expected true or false."));
}

TEST(Options, ChoicesAreListedWithTheNearest) {
  EXPECT_REFUSED("device: cdua",
                 "device: got 'cdua', expected one of: cpu, cuda. Did you mean 'cuda'?");
  EXPECT_REFUSED("tasks: [cola, mnil]",
                 "item 2 of tasks: got 'mnil', expected one of: cola, mnli. Did you mean 'mnli'?");
}

TEST(Options, ChoicesFromAFunctionAreEvaluatedEachTime) {
  Options options;
  EXPECT_THROW_WITH(set(options, "mixer.name=butterfly"), UsageError,
                    "expected one of: attention, toeplitz.");
  registry().push_back("butterfly");
  set(options, "mixer.name=butterfly");
  EXPECT_EQ(options.mixer.name, "butterfly");
  EXPECT_EQ(describe(options)[1].allowed, "attention, toeplitz, butterfly");
  registry().pop_back();
  EXPECT_THROW_WITH(validate(options), UsageError, "mixer.name: got 'butterfly', expected one of");
}

TEST(Options, WrongShapesAreRefused) {
  EXPECT_REFUSED("sizes: 3", "sizes: got '3', expected a list of integers (each 1 to 100).");
  EXPECT_REFUSED("tasks: {a: 1}",
                 "tasks: got a mapping, expected a list of texts (each one of: cola, mnli).");
  EXPECT_REFUSED("sizes:\n  - 1\n  - [2]\n", "recipe.yaml:3: item 2 of sizes: got a list");
  EXPECT_REFUSED("sizes: [1, 101]", "item 2 of sizes: got '101', expected an integer (1 to 100).");
  EXPECT_REFUSED("seed: [1]", "seed: got a list, expected an integer.");
  EXPECT_REFUSED("comment:", "comment: got nothing, expected a text");
  EXPECT_REFUSED("comment: null", "comment: got nothing");
  EXPECT_REFUSED("mixer: toeplitz",
                 "mixer: got 'toeplitz', expected a section with the keys d_state, name, block.");
  EXPECT_REFUSED("- 1\n", "recipe.yaml:1: got a list, expected a section with the keys mixer,");
  EXPECT_REFUSED("[a, b]: 1", "got a list as a key");
}

TEST(Options, TextsKeepWhatWasWritten) {
  EXPECT_EQ(parsed("comment: 007").comment, "007");
  EXPECT_EQ(parsed("comment: yes").comment, "yes");
  EXPECT_EQ(parsed("comment: ''").comment, "");
}

TEST(Options, SyntaxErrorsNameFileLineAndColumn) {
  EXPECT_REFUSED("seed: 1\nmixer: {d_state: 3\n", "recipe.yaml:3:1: not valid YAML: ");
  EXPECT_REFUSED("seed: 1\n\t- x", "recipe.yaml:2:");
}

TEST(Options, ASecondDocumentIsNotSilentlyDropped) {
  EXPECT_REFUSED("seed: 1\n---\nseed: 2\n", "a second document starts here");
  EXPECT_REFUSED("---\n---\nseed: 2\n", "a second document starts here");
  EXPECT_EQ(parsed("---\nseed: 5\n...\n").seed, 5);
}

TEST(Options, AnchorsAliasesAndTagsAreRefused) {
  EXPECT_REFUSED("sizes: &a [1]\n", "recipe.yaml:1: anchors (&name) and aliases");
  EXPECT_REFUSED("a: &a [*a]\n", "anchors");
  EXPECT_REFUSED("seed: *nobody\n", "recipe.yaml:1:");
  EXPECT_REFUSED("seed: !!str 12\n", "the tag 'tag:yaml.org,2002:str' is not supported");
}

TEST(Options, HostileInputsAreRefusedWithoutHarm) {
  EXPECT_REFUSED(std::string(100000, '['), "nested deeper than 32 levels");
  std::string blocks;
  for (int i = 0; i < 20000; ++i) blocks += "- ";
  EXPECT_REFUSED(blocks, "nested deeper than 32 levels");
  std::string maps;
  for (int i = 0; i < 20000; ++i) maps += "{a: ";
  EXPECT_REFUSED(maps, "nested deeper than 32 levels");
  EXPECT_REFUSED(std::string((1 << 20) + 1, '#'), "larger than 1048576 bytes");
  EXPECT_REFUSED(std::string("seed: \0", 7), "recipe.yaml:1:");
  EXPECT_REFUSED(std::string(200, '\xff'), "recipe.yaml:1");
  EXPECT_REFUSED("seed: " + std::string(1000, 'x'), std::string(80, 'x') + "...'");
}

TEST(Options, AFailedReadChangesNothing) {
  Options options;
  EXPECT_THROW_WITH(parse_yaml(options, "seed: 5\nmixer: {d_state: 7, nam: x}", "r"), UsageError,
                    "unknown key 'mixer.nam'");
  EXPECT_THROW_WITH(set(options, "sizes=5,6,700"), UsageError, "item 3 of sizes: got '700'");
  EXPECT_EQ(to_json(options), to_json(Options()));
}

TEST(Options, SetReachesEveryField) {
  Options options;
  set(options, "mixer.block.dropout=0.5");
  set(options, "comment=a=b: [c]");
  set(options, "sizes=5,6");
  set(options, "rates=[1, 2e-3]");
  set(options, "tasks=[cola, 'mnli']");
  EXPECT_EQ(options.mixer.block.dropout, 0.5);
  EXPECT_EQ(options.comment, "a=b: [c]");
  EXPECT_EQ(options.sizes, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(options.rates, (std::vector<double>{1, 2e-3}));
  EXPECT_EQ(options.tasks, (std::vector<std::string>{"cola", "mnli"}));
  set(options, "sizes=");
  set(options, "tasks=[]");
  set(options, "comment=");
  EXPECT_TRUE(options.sizes.empty() && options.tasks.empty() && options.comment.empty());
}

TEST(Options, SetReportsTheSameErrorsAsFiles) {
  Options options;
  EXPECT_THROW_WITH(set(options, "mixer.d_stat=3"), UsageError,
                    "--set mixer.d_stat=3: unknown key 'mixer.d_stat'. Did you mean 'd_state'?");
  EXPECT_THROW_WITH(set(options, "mixer.d_state=many"), UsageError,
                    "--set mixer.d_state=many: mixer.d_state: got 'many', expected an integer (1 ");
  EXPECT_THROW_WITH(set(options, "seed"), UsageError, "--set seed: expected KEY=VALUE");
  EXPECT_THROW_WITH(set(options, "=1"), UsageError, "unknown key ''");
  EXPECT_THROW_WITH(set(options, "mixer=toeplitz"), UsageError,
                    "mixer: got 'toeplitz', expected a section with the keys d_state, name, block");
  EXPECT_THROW_WITH(set(options, "seed.x=1"), UsageError, "'seed' is an integer, it has no keys");
  EXPECT_THROW_WITH(set(options, "sizes=1,,2"), UsageError, "item 2 of sizes: got ''");
  EXPECT_THROW_WITH(set(options, "sizes=[1"), UsageError, "not valid YAML");
  EXPECT_THROW_WITH(set(options, "comment=\xff"), UsageError, "expected a text. It must be UTF-8.");
}

TEST(Options, ValidateChecksWhatCodeFilledIn) {
  Options options;
  validate(options);
  options.mixer.block.dropout = 1.5;
  EXPECT_THROW_WITH(validate(options), UsageError,
                    "mixer.block.dropout: got '1.5', expected a number (0 to 1).");
  options = Options();
  options.rates = {1.0, std::nan("")};
  EXPECT_THROW_WITH(validate(options), UsageError, "item 2 of rates: got 'nan', expected a number");
  options = Options();
  options.device = "tpu";
  EXPECT_THROW_WITH(validate(options), UsageError, "device: got 'tpu', expected one of: cpu, cuda");
}

TEST(Options, FilesAreReadAndNamedInErrors) {
  const test::TemporaryFolder folder;
  const auto path = folder / "recipe.yaml";
  std::ofstream(path) << "seed: 4\n";
  Options options;
  load_yaml(options, path);
  EXPECT_EQ(options.seed, 4);
  std::ofstream(path) << "\nsedd: 4\n";
  EXPECT_THROW_WITH(load_yaml(options, path), UsageError, path.string() + ":2: unknown key 'sedd'");
  EXPECT_THROW_WITH(load_yaml(options, folder / "none.yaml"), UsageError,
                    "none.yaml: cannot be opened: No such file");
  EXPECT_THROW_WITH(load_yaml(options, folder.path()), UsageError, "is a directory");
  EXPECT_THROW_WITH(load_yaml(options, "/dev/zero"), UsageError, "is a pipe or a device");
}

struct DeclaredTwice {
  int64_t a = 0;
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("a", self.a, "first");
    v("a", self.a, "second");
  }
};

struct BadlyNamed {
  int64_t a = 0;
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("a-b", self.a, "dashes belong to flags");
  }
};

TEST(Options, ErrorsInADeclarationAreNamed) {
  EXPECT_THROW_WITH(to_json(DeclaredTwice()), Error, "the option 'a' is declared twice");
  EXPECT_THROW_WITH(to_json(BadlyNamed()), Error, "the option 'a-b' is declared with a name");
}

}  // namespace
}  // namespace hydramix
