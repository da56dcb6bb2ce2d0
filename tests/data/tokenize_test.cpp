// SPDX-License-Identifier: Apache-2.0
// Tokenization gives the same bytes for any number of threads and after any number of kills and
// resumes. A partial result is never left behind or accepted as a data set.
#include "data/tokenize_job.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "data/token_shards.h"
#include "hydramix/error.h"
#include "support/archives.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;

// One token per byte.
void encode_bytes(std::string_view text, std::vector<int32_t>& ids) {
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
}

// Two thousand documents in four formats, some malformed, some short.
class Tokenize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(3);
    const auto words = [&] {
      if (random() % 20 == 0) return std::string("x");
      std::string text = "begin";
      for (auto count = random() % 200; count > 0; --count) text += concat(" ", random() % 1000);
      return text;
    };
    std::string text, lines;
    for (int i = 0; i < 500; ++i) {
      text += words() + "\n\n";
      lines += concat("{\"text\": \"", words(), "\", \"n\": ", i, "}\n");
      if (i % 50 == 7) lines += "{\"text\": 5}\n{\"text\n";
    }
    write_file(folder_ / "a.txt", text);
    write_file(folder_ / "b.json.gz", test::gzip(lines));
    write_file(folder_ / "c.json.zst", test::zstd(lines));
    write_file(folder_ / "d.json.gz", test::gzip(lines).substr(0, 30'000));
    write_file(folder_ / "e.txt", text);
  }

  TokenizeJob job(const std::string& out) const {
    TokenizeJob made;
    for (const char* name : {"a.txt", "b.json.gz", "c.json.zst", "d.json.gz", "e.txt"})
      made.inputs.push_back(find_input_files({(folder_ / name).string()}).files.front());
    made.encode = encode_bytes;
    made.tokenizer = "bytes";
    made.vocab = "vocab.txt";
    made.vocabulary = 256;
    made.out = folder_ / out;
    made.shard_tokens = 120'000;
    made.min_tokens = 4;
    return made;
  }

  std::map<std::string, std::string> files(const std::string& out) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / out))
      found[entry.path().filename().string()] = read_file(entry.path());
    return found;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  TemporaryFolder folder_;
};

// The exit status of `work` in a child process, or minus the signal that ended it.
template <class Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(Tokenize, DocumentsKeepTheirOrderAndAllAreCounted) {
  std::vector<std::string> reports;
  TokenizeJob made = job("out");
  made.report = [&](const std::string& line) { reports.push_back(line); };
  const TokenizeResult result = run_tokenize(made);
  EXPECT_EQ(result.state, TokenizeResult::finished);
  const TokenShards shards(folder_ / "out");
  shards.verify();

  std::vector<std::string> expected;
  int64_t too_short = 0;
  DefectCounts malformed;
  TextSource source(made.inputs, made.text);
  RawDocument document;
  std::string text;
  while (source.next(document))
    if (const auto defect = extract_text(document, made.text, text))
      ++malformed[defect->cause];
    else if (text.size() < 4)
      ++too_short;
    else
      expected.push_back(text);

  ASSERT_EQ(shards.size(), std::ssize(expected));
  EXPECT_GT(shards.index().shards.size(), 3U);
  for (int64_t i = 0; i < shards.size(); ++i) {
    std::vector<int32_t> ids;
    shards.read(i, ids);
    ASSERT_EQ(std::string(ids.begin(), ids.end()), expected[static_cast<std::size_t>(i)]) << i;
  }
  EXPECT_EQ(shards.index().short_documents, too_short);
  EXPECT_GT(too_short, 0);
  EXPECT_EQ(shards.index().malformed.to_json(), malformed.to_json());
  EXPECT_GT(malformed[Cause::bad_json], 10);
  EXPECT_EQ(malformed[Cause::damaged_archive], 1);
  EXPECT_FALSE(has("out/resume.json"));

  // Five of each cause are shown, and a note on the rest; the archive occurs once.
  EXPECT_EQ(reports.size(), 5U + 1U + 5U + 1U + 1U);
  EXPECT_EQ(reports[0],
            made.inputs[1].path + ":9: not_a_string: 'text' is not a string (left out)");
  EXPECT_NE(reports.back().find("d.json.gz:"), std::string::npos);
  EXPECT_NE(reports.back().find("the gzip archive ends too early"), std::string::npos);
}

TEST_F(Tokenize, TheNumberOfThreadsChangesNothing) {
  run_tokenize(job("one"));
  for (const int threads : {2, 3, 8}) {
    TokenizeJob made = job(concat(threads));
    made.threads = threads;
    made.encode = [](std::string_view text, std::vector<int32_t>& ids) {
      if (text.size() % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      encode_bytes(text, ids);
    };
    run_tokenize(made);
    EXPECT_EQ(files(concat(threads)), files("one")) << threads << " threads";
  }
}

TEST_F(Tokenize, KilledAtAnyMomentItResumesToTheSameBytes) {
  std::atomic<int> documents = 0;
  TokenizeJob counted = job("whole");
  counted.encode = [&](std::string_view text, std::vector<int32_t>& ids) {
    ++documents;
    encode_bytes(text, ids);
  };
  run_tokenize(counted);
  // The child process ends before the document of this number.
  const auto killed_at = [this](const std::string& out, int number) {
    TokenizeJob made = job(out);
    made.threads = 2;
    std::atomic<int> begun = 0;
    made.encode = [&begun, number](std::string_view text, std::vector<int32_t>& ids) {
      if (++begun == number) raise(SIGKILL);
      encode_bytes(text, ids);
    };
    run_tokenize(made);
  };

  std::mt19937 random(5);
  for (int round = 0; round < 2; ++round) {
    const std::string out = concat("killed", round);
    for (int attempt = 0; attempt < 8; ++attempt) {
      const int number = std::uniform_int_distribution(1, documents * 7 / 10)(random);
      const int status = in_child([&] { killed_at(out, number); });
      // A later attempt may have fewer documents left.
      ASSERT_TRUE(status == -SIGKILL || (attempt > 0 && status == 0)) << status;
      if (has(out + "/index.json"))
        TokenShards(folder_ / out).verify();
      else if (has(out))
        EXPECT_THROW_WITH(TokenShards(folder_ / out), Error, "has no index.json");
    }
    run_tokenize(job(out));
    EXPECT_EQ(files(out), files("whole")) << "round " << round;
  }
}

// Moments that random kills may miss: the first documents of each shard, and the one after its end.
TEST_F(Tokenize, KilledAfterEveryShardItResumesToTheSameBytes) {
  run_tokenize(job("whole"));
  const auto shards = std::ssize(TokenShards(folder_ / "whole").index().shards);
  int attempts = 0;
  for (bool done = false; !done; ++attempts) {
    TokenizeJob made = job("killed");
    int64_t first = -1;
    made.progress = [&](const TokenizeProgress& now) {
      const int64_t finished = now.tokens / 120'000;
      if (first < 0) first = finished;
      if (finished > first) raise(SIGKILL);
    };
    const int status = in_child([&] { run_tokenize(made); });
    ASSERT_TRUE(status == 0 || status == -SIGKILL) << status;
    done = status == 0;
    ASSERT_LT(attempts, 100);
  }
  EXPECT_GT(attempts, 2);
  EXPECT_LE(attempts, shards + 1) << "every attempt finished a shard";
  EXPECT_EQ(files("killed"), files("whole"));
}

TEST_F(Tokenize, AnInterruptStopsCleanlyAndTheSameJobResumes) {
  run_tokenize(job("whole"));
  int64_t resumed = 0;
  for (int stops = 0;; ++stops) {
    TokenizeJob made = job("out");
    made.interrupted = [asked = 0]() mutable { return ++asked == 2; };
    const TokenizeResult result = run_tokenize(made);
    resumed = result.resumed_shards;
    if (result.state == TokenizeResult::finished) {
      EXPECT_GT(stops, 0);
      break;
    }
    EXPECT_EQ(result.state, TokenizeResult::interrupted);
    EXPECT_FALSE(has("out/index.json"));
    for (const auto& [name, contents] : files("out"))
      EXPECT_EQ(name.find(".tmp."), std::string::npos) << name;
    ASSERT_LT(stops, 100);
  }
  EXPECT_GT(resumed, 0);
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(Tokenize, AFinishedDataSetIsLeftAlone) {
  run_tokenize(job("out"));
  TokenizeJob again = job("out");
  again.encode = [](std::string_view, std::vector<int32_t>&) { throw Error("called"); };
  EXPECT_EQ(run_tokenize(again).state, TokenizeResult::was_there);
  again.overwrite = true;
  EXPECT_THROW_WITH(run_tokenize(again), Error, "called");
  EXPECT_FALSE(has("out/index.json")) << "the old data set is gone before the new one is begun";
}

TEST_F(Tokenize, OtherOptionsOrInputsAreRefused) {
  TokenizeJob stopped = job("unfinished");
  stopped.interrupted = [] { return true; };
  run_tokenize(stopped);
  run_tokenize(job("finished"));
  const auto expect = [&](auto change, const std::string& message) {
    for (const char* out : {"unfinished", "finished"}) {
      const auto before = files(out);
      TokenizeJob other = job(out);
      change(other);
      EXPECT_THROW_WITH(run_tokenize(other), UsageError, message);
      EXPECT_THROW_WITH(run_tokenize(other), UsageError, "Use another folder, or --overwrite");
      EXPECT_EQ(files(out), before);
    }
  };
  expect(
      [](TokenizeJob& o) {
        o.tokenizer = "others";
        o.vocab = "other.txt";
      },
      "made with --vocab vocab.txt (tokenizer bytes), now it is --vocab other.txt");
  expect([](TokenizeJob& o) { o.cased = true; }, "made with no --cased, now it is --cased");
  expect([](TokenizeJob& o) { o.min_tokens = 5; }, "--min-tokens 4, now it is --min-tokens 5");
  expect([](TokenizeJob& o) { o.text.field = "body"; }, "--field text, now it is --field body");
  expect([](TokenizeJob& o) { o.text.document_per_line = true; }, "--document blank-line, now");
  expect([](TokenizeJob& o) { o.text.max_bytes = 5; }, "--max-document-bytes 16777216, now");
  expect([](TokenizeJob& o) { o.shard_tokens = 5; }, "--shard-tokens 120000, now");
  expect([](TokenizeJob& o) { o.limit_documents = 5; }, "--limit-documents 0, now");
  expect([](TokenizeJob& o) { o.inputs.pop_back(); }, "now 4 files");
  expect([](TokenizeJob& o) { o.inputs[1].bytes = 77; }, "b.json.gz of 77 bytes");
  expect([](TokenizeJob& o) { std::swap(o.inputs[0], o.inputs[1]); }, "other inputs: ");

  TokenizeJob same = job("unfinished");  // neither changes the output
  same.threads = 3;
  same.vocab = "moved/vocab.txt";
  EXPECT_EQ(run_tokenize(same).state, TokenizeResult::finished);
  EXPECT_EQ(files("unfinished"), files("finished"));
}

TEST_F(Tokenize, AnInputThatChangedIsNoticedThoughItsSizeIsTheSame) {
  run_tokenize(job("whole"));
  const auto stop_after = [&](int batches) {
    TokenizeJob stopped = job("out");
    stopped.overwrite = true;
    stopped.threads = 1;
    stopped.interrupted = [asked = 0, batches]() mutable { return ++asked == batches; };
    return run_tokenize(stopped).state;
  };
  for (const int batches : {1, 4}) {
    ASSERT_EQ(stop_after(batches), TokenizeResult::interrupted);
    ASSERT_TRUE(has("out/shard-00000.bin")) << "something was read and kept";
    const std::string before = read_file(folder_ / "a.txt");
    std::string changed = before;
    changed[100] = changed[100] == 'x' ? 'y' : 'x';  // long before the place of the resumption
    write_file(folder_ / "a.txt", changed);
    EXPECT_THROW_WITH(run_tokenize(job("out")), UsageError, "of inputs that have changed since");
    write_file(folder_ / "a.txt", before);
    EXPECT_EQ(run_tokenize(job("out")).state, TokenizeResult::finished);
    EXPECT_EQ(files("out"), files("whole"));
  }
}

TEST_F(Tokenize, ADamagedListOfOptionsIsNoticed) {
  run_tokenize(job("out"));
  const std::string index = read_file(folder_ / "out/index.json");
  for (const auto& [from, to] : {std::pair("\"vocab\": \"vocab.txt\"", "\"vocab\": 5"),
                                 std::pair("\"inputs\": [", "\"inputs\": 5, \"x\": ["),
                                 std::pair("\"inputs\": [", "\"inputs\": [5,"),
                                 std::pair("\"field\": \"text\"", "\"fields\": \"text\"")}) {
    std::string damaged = index;
    damaged.replace(damaged.find(from), std::string(from).size(), to);
    write_file(folder_ / "out/index.json", damaged);
    EXPECT_THROW_WITH(run_tokenize(job("out")), Error, "index.json: the checksum of its values is");
  }
}

TEST_F(Tokenize, AMalformedLineCanStopTheJobWhichThenResumes) {
  TokenizeJob strict = job("out");
  strict.stop_on_error = true;
  EXPECT_THROW_WITH(run_tokenize(strict), Error, "b.json.gz:9: not_a_string: ");
  EXPECT_THROW_WITH(run_tokenize(strict), Error, "leave such lines out with --on-error skip");
  EXPECT_FALSE(has("out/index.json"));
  run_tokenize(job("out"));
  run_tokenize(job("whole"));
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(Tokenize, AnErrorOfTheTokenizerIsRethrown) {
  TokenizeJob made = job("out");
  made.threads = 3;
  made.encode = [](std::string_view, std::vector<int32_t>&) { throw Error("no such letter"); };
  EXPECT_THROW_WITH(run_tokenize(made), Error, "no such letter");
  made.encode = [](std::string_view, std::vector<int32_t>& ids) { ids.assign(1000, 256); };
  EXPECT_THROW_WITH(run_tokenize(made), Error, "has the id 256, expected 0 to 255");
}

TEST_F(Tokenize, AnInputThatVanishesIsAnError) {
  TokenizeJob made = job("out");
  std::filesystem::remove(folder_ / "c.json.zst");
  EXPECT_THROW_WITH(run_tokenize(made), Error, "c.json.zst: cannot be opened");
  EXPECT_FALSE(has("out/index.json"));
}

TEST_F(Tokenize, TheLimitOfDocumentsIsExact) {
  TokenizeJob made = job("out");
  made.limit_documents = 123;
  made.shard_tokens = 10'000;
  run_tokenize(made);
  EXPECT_EQ(TokenShards(folder_ / "out").size(), 123);

  // Also when the job stops just after the shard with the last document.
  made.out = folder_ / "at_shard_end";
  made.shard_tokens = 1;
  made.limit_documents = 3;
  const auto unlink_index = [&] { std::filesystem::remove(folder_ / "at_shard_end/index.json"); };
  TokenizeJob killed = made;
  killed.progress = [calls = 0](const TokenizeProgress&) mutable {
    if (++calls == 2) throw Error("stopped");
  };
  EXPECT_THROW_WITH(run_tokenize(killed), Error, "stopped");
  unlink_index();
  EXPECT_EQ(run_tokenize(made).resumed_shards, 3);
  EXPECT_EQ(TokenShards(folder_ / "at_shard_end").size(), 3);
}

TEST_F(Tokenize, ACorpusWithoutDocumentsIsAnErrorAndLeavesNothing) {
  TokenizeJob made = job("out");
  made.text.field = "body";
  made.inputs.erase(made.inputs.begin());  // the texts
  made.inputs.pop_back();
  EXPECT_THROW_WITH(run_tokenize(made), Error, "the inputs have no document of 4 tokens or more");
  EXPECT_FALSE(has("out"));
  write_file(folder_ / "empty.txt", "");
  made.inputs = find_input_files({(folder_ / "empty.txt").string()}).files;
  EXPECT_THROW_WITH(run_tokenize(made), Error, "0 documents too short, 0 malformed");
}

TEST_F(Tokenize, AFullDiskIsAnErrorAndTheJobResumesWithSpace) {
  run_tokenize(job("whole"));
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit small = {100'000, 100'000};  // shards have 240 KB
              setrlimit(RLIMIT_FSIZE, &small);
              EXPECT_THROW_WITH(run_tokenize(job("out")), Error,
                                "shard-00000.bin: cannot be written");
              if (HasFailure()) _exit(3);
            }),
            0);
  EXPECT_EQ(files("out").size(), 1U) << "resume.json alone";
  run_tokenize(job("out"));
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(Tokenize, FoldersThatCannotBeUsedAreErrors) {
  write_file(folder_ / "file", "x");
  EXPECT_THROW_WITH(run_tokenize(job("file")), UsageError, "is a file, expected a folder");
  EXPECT_THROW_WITH(run_tokenize(job("file/out")), Error, "the folder cannot be made");

  std::filesystem::create_directory(folder_ / "stray");
  write_file(folder_ / "stray/shard-00000.bin", "x");
  EXPECT_THROW_WITH(run_tokenize(job("stray")), UsageError, "holds shards, but neither index.json");

  TokenizeJob stopped = job("out");
  stopped.interrupted = [asked = 0]() mutable { return ++asked == 3; };
  run_tokenize(stopped);
  ASSERT_TRUE(has("out/shard-00000.bin"));
  const std::string state = read_file(folder_ / "out/resume.json");
  write_file(folder_ / "out/resume.json", state.substr(0, 100));
  EXPECT_THROW_WITH(run_tokenize(job("out")), Error, "resume.json: is not JSON");
  write_file(folder_ / "out/resume.json", state);
  write_file(folder_ / "out/shard-00000.bin", "x");
  EXPECT_THROW_WITH(run_tokenize(job("out")), Error, "shard-00000.bin: has 1 bytes");
  TokenizeJob anew = job("out");
  anew.overwrite = true;
  EXPECT_EQ(run_tokenize(anew).state, TokenizeResult::finished);
  TokenShards(folder_ / "out").verify();
}

TEST_F(Tokenize, TwoJobsDoNotWriteToOneFolder) {
  TokenizeJob outer = job("out");
  bool tried = false;
  outer.progress = [&](const TokenizeProgress&) {
    if (std::exchange(tried, true)) return;
    EXPECT_THROW_WITH(run_tokenize(job("out")), Error, "another hydramix tokenize is writing");
  };
  run_tokenize(outer);
  EXPECT_TRUE(tried);
}

TEST_F(Tokenize, ProgressCountsBytesOfTheInput) {
  TokenizeJob made = job("out");
  std::vector<TokenizeProgress> seen;
  made.progress = [&](const TokenizeProgress& now) { seen.push_back(now); };
  run_tokenize(made);
  EXPECT_EQ(seen.front().bytes, 0);
  EXPECT_EQ(seen.back().bytes, seen.back().total_bytes);
  EXPECT_EQ(seen.back().documents, TokenShards(folder_ / "out").size());
  for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].bytes, seen[i - 1].bytes);
}

}  // namespace
}  // namespace hydramix
