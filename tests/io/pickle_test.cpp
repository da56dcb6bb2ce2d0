// SPDX-License-Identifier: Apache-2.0
// Pickles, written opcode by opcode: their values, what is refused, and that calls are only
// recorded.
#include "io/pickle.h"

#include <random>

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix::pickle {
namespace {

using namespace std::string_literals;

Document parse_program(const std::string& program) {
  return Document::parse(std::as_bytes(std::span<const char>(program)), "p.pkl");
}

// The value of a program, with the document that owns it.
struct Parsed {
  explicit Parsed(std::string text) : program(std::move(text)), document(parse_kept(program)) {}
  static Document parse_kept(const std::string& text) { return parse_program(text); }
  const Value& root() const { return document[document.root()]; }
  const Value& item(std::size_t i) const { return document[root().items.at(i)]; }

  std::string program;
  Document document;
};

void expect_program_refused(const std::string& program, const std::string& reason) {
  EXPECT_THROW_WITH(parse_program(program), Error, "p.pkl: ");
  EXPECT_THROW_WITH(parse_program(program), Error, reason);
}

TEST(Pickle, ReadsNumbers) {
  const Parsed p(
      "\x80\x02(NJ\xfe\xff\xff\xffK\xffM\xff\xff\x8a\x01\x80\x8a\x00\x88\x89G?\xf8\0\0\0\0\0\0"
      "\x8a\x09\0\0\0\0\0\0\0\0\x01t."s);
  ASSERT_EQ(p.root().kind, Kind::kTuple);
  EXPECT_EQ(p.item(0).kind, Kind::kNone);
  EXPECT_EQ(p.item(1).integer, -2);
  EXPECT_EQ(p.item(2).integer, 255);
  EXPECT_EQ(p.item(3).integer, 65535);
  EXPECT_EQ(p.item(4).integer, -128);
  EXPECT_EQ(p.item(5).integer, 0);
  EXPECT_EQ(p.item(6).kind, Kind::kBool);
  EXPECT_EQ(p.item(6).integer, 1);
  EXPECT_EQ(p.item(7).integer, 0);
  EXPECT_EQ(p.item(8).real, 1.5);
  EXPECT_EQ(p.item(9).kind, Kind::kHugeInteger);
}

TEST(Pickle, ReadsLongsOfEightBytes) {
  const Parsed p("\x80\x02\x8a\x08\0\0\0\0\0\0\0\x80."s);
  EXPECT_EQ(p.root().integer, std::numeric_limits<std::int64_t>::min());
}

TEST(Pickle, ReadsTextsListsAndDictsOfEveryProtocol) {
  const Parsed p(
      "\x80\x05\x95\x01\0\0\0\0\0\0\0}(\x8c\x01"
      "aX\x02\0\0\0bc\x8d\x01\0\0\0\0\0\0\0d](K\x01K\x02"
      "eU\x01xC\x02yzu."s);
  ASSERT_EQ(p.root().kind, Kind::kDict);
  ASSERT_EQ(p.root().items.size(), 6u);
  EXPECT_EQ(p.item(0).text, "a");
  EXPECT_EQ(p.item(1).text, "bc");
  EXPECT_EQ(p.item(2).text, "d");
  ASSERT_EQ(p.item(3).kind, Kind::kList);
  EXPECT_EQ(p.document[p.item(3).items.at(1)].integer, 2);
  EXPECT_EQ(p.item(4).kind, Kind::kText);
  EXPECT_EQ(p.item(5).kind, Kind::kBytes);
}

TEST(Pickle, RemembersAndRecalls) {
  const Parsed p("\x80\x04(]\x94K\x07q\x05h\0h\x05j\x05\0\0\0t."s);
  EXPECT_EQ(p.root().items[0], p.root().items[2]);
  EXPECT_EQ(p.root().items[1], p.root().items[3]);
  EXPECT_EQ(p.root().items[1], p.root().items[4]);
}

TEST(Pickle, RecordsCallsAndRunsNone) {
  test::TemporaryFolder folder;
  const std::string file = (folder / "evil").string(), command = "touch " + file;
  for (const std::string module : {"os\nsystem", "posix\nsystem", "subprocess\ncall"}) {
    const Parsed p("\x80\x02"s + "c" + module + "\n(X" + static_cast<char>(command.size()) +
                   "\0\0\0"s + command + "tR.");
    ASSERT_EQ(p.root().kind, Kind::kObject);
    EXPECT_EQ(p.document[p.root().callable].kind, Kind::kGlobal);
    const auto& arguments = p.document[p.root().arguments];
    EXPECT_EQ(p.document[arguments.items.at(0)].text, command);
  }
  const Parsed p(
      "\x80\x04\x8c\x08"
      "builtins\x8c\x04"
      "eval\x93\x8c\x01"
      "1\x85R}b."s);
  EXPECT_TRUE(p.document[p.root().callable].is_global("builtins", "eval"));
  EXPECT_EQ(p.document[p.root().state].kind, Kind::kDict);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Pickle, FillsAnOrderedDictAndNamesAStorage) {
  const Parsed p(
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(X\1\0\0\0kK\x03u."s);
  ASSERT_EQ(p.root().kind, Kind::kObject);
  ASSERT_EQ(p.root().items.size(), 2u);
  EXPECT_EQ(p.item(1).integer, 3);
  const Parsed q("\x80\x02K\x05\x85Q."s);
  ASSERT_EQ(q.root().kind, Kind::kPersistent);
  EXPECT_EQ(q.document[q.root().callable].kind, Kind::kTuple);
}

TEST(Pickle, RefusesMalformedPrograms) {
  expect_program_refused("", "begins a run of 1 bytes, but only 0 are left");
  expect_program_refused("\x80\x02.", "ends with 0 values on the stack");
  expect_program_refused("\x80\x02NN.", "ends with 2 values on the stack");
  expect_program_refused("\x80\x02N.N", "1 bytes follow its end");
  expect_program_refused("\x80\x06N.", "of protocol 6");
  expect_program_refused("\x80\x02X\xff\xff\xff\xff"s, "run of 4294967295 bytes");
  expect_program_refused("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.",
                         "run of 18446744073709551615");
  expect_program_refused("\x80\x02t.", "needs a mark");
  expect_program_refused("\x80\x02N(a.", "needs a value");
  expect_program_refused("\x80\x02NNa.", "appends to no list");
  expect_program_refused("\x80\x02}(Nu.", "a key without a value");
  expect_program_refused("\x80\x02(Nd.", "a key without a value");
  expect_program_refused("\x80\x02NNNs.", "sets an item of no dict");
  expect_program_refused("\x80\x02h\x01.", "recalls number 1");
  expect_program_refused("\x80\x02q\x01.", "needs a value");
  expect_program_refused("\x80\x02NNR.", "no tuple of arguments");
  expect_program_refused("\x80\x02}}b.", "the state of no object");
  expect_program_refused("\x80\x04NN\x93.", "other than two texts");
  expect_program_refused(
      "\x80\x02"
      "cos\nsystem",
      "are left");
  expect_program_refused("\x80\x02\x82\x01.", "opcode 0x82");
  expect_program_refused("I1\n.", "opcode 0x49");
}

TEST(Pickle, BoundsMemoryByTheFileSize) {
  expect_program_refused("\x80\x02" + std::string(2'500'000, ')'),
                         "makes more than 2097152 values");
  expect_program_refused("\x80\x04N" + std::string(2'500'000, '\x94') + ".", "memorises more");
  // Deep nesting needs no recursion, neither to read nor to destroy.
  const Parsed p("\x80\x02N" + std::string(1'000'000, '\x85') + ".");
  EXPECT_EQ(p.root().kind, Kind::kTuple);
  // A list that contains itself.
  const Parsed q("\x80\x02]q\0h\0a."s);
  EXPECT_EQ(q.root().items.at(0), q.document.root());
}

TEST(Pickle, RandomProgramsEndInAnErrorOrADocument) {
  const std::string opcodes =
      "\x80\x95.(012N\x88\x89KMJ\x8a\x8bG\x8cX\x8dUTCB\x8e\x96)\x85\x86\x87t]lae\x8f\x90\x91}"
      "dsuqr\x94"
      "hjc\x93QR\x81\x92"
      "b\n\0\1\2"s;
  std::mt19937 random(5);
  int documents = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string program = "\x80\x02";
    const unsigned length = random() % 24;
    for (unsigned j = 0; j < length; ++j) program += opcodes[random() % opcodes.size()];
    program += '.';
    try {
      const auto document = parse_program(program);
      ++documents;
      EXPECT_LE(static_cast<int>(document[document.root()].kind), static_cast<int>(Kind::kObject));
    } catch (const Error&) {
    }
  }
  EXPECT_GT(documents, 1000);
}

}  // namespace
}  // namespace hydramix::pickle
