// SPDX-License-Identifier: Apache-2.0
// fill-mask, embed, predict and matrix --model: formats in and out, order, mistakes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/in_process.h"

namespace hydramix {
namespace {

using nlohmann::json;
using test::contains;
using test::run_here;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A model and classifiers that have hardly learned anything, made once.
struct TextCommands : ::testing::Test {
  static const test::TemporaryFolder& folder() {
    static const test::TemporaryFolder made;
    return made;
  }
  static std::string at(const std::string& name) { return (folder() / name).string(); }
  static std::string write(const std::string& name, const std::string& contents) {
    std::ofstream(folder() / name, std::ios::binary) << contents;
    return at(name);
  }
  static void SetUpTestSuite() {
    ASSERT_EQ(run_here("make-data glue --train 24 --dev 12 --test 6 --out " + at("glue")).code, 0);
    ASSERT_EQ(run_here("pretrain --device cpu --model.vocab 300 --model.layers 2 "
                       "--model.block.d-model 16 --model.block.headdim 8 "
                       "--model.block.mixer-options.d-state 8 --data.evaluation-documents 4 "
                       "--train.steps 2 --train.batch 4 --out " +
                       at("run"))
                  .code,
              0);
    for (const std::string task : {"SST-2", "MRPC", "STS-B"})
      ASSERT_EQ(run_here("finetune --device cpu --recipe tiny --epochs 1 --model " + at("run") +
                         " --data " + at("glue") + " --task " + task + " --out " + at(task))
                    .code,
                0)
          << task;
  }
  static std::string model() { return " --model " + at("run"); }
};

// ---- embed ----

TEST_F(TextCommands, EmbedWritesTheSameVectorsInEveryFormat) {
  const auto file = write("lines.txt", "the map is green .\n\nanna ran .\n");
  const auto jsonl = run_here("embed " + file + model());
  ASSERT_EQ(jsonl.code, 0) << jsonl.err;
  const auto lines = lines_of(jsonl.out);
  ASSERT_EQ(lines.size(), 3u);
  std::vector<float> values;
  for (const auto& line : lines)
    for (const auto& value : json::parse(line)) values.push_back(value.get<float>());
  ASSERT_EQ(values.size(), 3u * 16);
  const auto npy = run_here("embed " + file + model() + " --out " + at("v.npy"));
  EXPECT_TRUE(contains(npy.out, "3 vectors of 16")) << npy.out << npy.err;
  const auto bytes = read_file(folder() / "v.npy");
  EXPECT_TRUE(contains(bytes.substr(0, 128), "'shape': (3, 16), }")) << bytes.substr(0, 128);
  ASSERT_EQ(bytes.size(), 128u + 3 * 16 * 4);
  EXPECT_EQ(std::memcmp(bytes.data() + 128, values.data(), values.size() * 4), 0);
  ASSERT_EQ(run_here("embed " + file + model() + " --out " + at("v.tsv")).code, 0);
  std::istringstream tsv(read_file(folder() / "v.tsv"));
  for (const float value : values) {
    float read = 0;
    tsv >> read;
    EXPECT_EQ(read, value);
  }
  // stdin, a pipe, JSON lines and an argument give the same.
  EXPECT_EQ(test::run("embed -" + model() + " <" + file).out, jsonl.out);
  EXPECT_EQ(test::run("embed /dev/stdin" + model() + " <" + file).out, jsonl.out);
  const auto objects = write("o.jsonl",
                             "{\"body\": \"the map is green .\"}\n{\"body\": \"\"}\n"
                             "{\"body\": \"anna ran .\"}\n");
  EXPECT_EQ(run_here("embed " + objects + model() + " --field body").out, jsonl.out);
  EXPECT_EQ(run_here("embed" + model() + " --text 'the map is green .'").out, lines[0] + "\n");
}

TEST_F(TextCommands, EmbedNormalizesPoolsAndTakesClassifiers) {
  const auto unit =
      json::parse(run_here("embed" + model() + " --normalize --text 'anna ran .'").out);
  double squares = 0;
  for (const double value : unit) squares += value * value;
  EXPECT_NEAR(squares, 1, 1e-6);
  const auto vector = [&](const std::string& words) {
    const auto r = run_here("embed --text 'anna ran .' " + words);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  EXPECT_NE(vector(model() + " --pooling cls"), vector(model()));
  EXPECT_EQ(vector(model() + " --pooling mean"), vector(model()));
  EXPECT_EQ(vector("--model " + at("SST-2")), vector("--model " + at("SST-2/model")));
  EXPECT_NE(vector("--model " + at("SST-2")), vector(model()));
}

TEST_F(TextCommands, OrderAndBitsDoNotDependOnTheBatch) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    for (int k = 0; k <= i * 7 % 23; ++k) text += k % 2 == i % 2 ? "the map " : "anna ran ";
    text += "\n";
  }
  const auto file = write("many.txt", text);
  const auto together = run_here("embed " + file + model());
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(lines_of(together.out).size(), 300u);
  EXPECT_EQ(run_here("embed " + file + model() + " --batch-tokens 1").out, together.out);
}

TEST_F(TextCommands, UnknownWordsAndCutTextsAreMentioned) {
  const auto file =
      write("odd.txt", "the map\nthe \xE6\x97\xA5 map\nthe map is green . anna ran .\n");
  const auto r = run_here("embed " + file + model() + " --max-length 8");
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(contains(r.err, "the vocabulary lacks 1 word of 1 of 3 texts ([UNK]), the first in " +
                                  file + ": line 2"))
      << r.err;
  EXPECT_TRUE(contains(r.err, "1 text of 3 was cut to 8 tokens, the first " + file + ": line 3"))
      << r.err;
  EXPECT_EQ(run_here("embed" + model() + " --text 'the map'").err, "") << "nothing to say";
}

TEST_F(TextCommands, RejectsImpossibleRequestsBeforeAnyWork) {
  const auto file = write("good.txt", "the map\n"), dev = at("glue/SST-2/dev.tsv");
  const auto dev_before = read_file(dev);
  struct Case {
    std::string words;
    int code;
    std::string message;
  };
  const std::vector<Case> cases{
      {"embed" + model(), 2, "no texts"},
      {"embed " + file + model() + " --to npy", 2, "--out FILE.npy"},
      {"embed " + file + model() + " --to xml", 2, "expected one of: jsonl, tsv, npy"},
      {"embed " + file + model() + " --out " + at("x.dat"), 2, "does not name a format"},
      {"embed " + file + model() + " --to tsv --out " + file, 2, "is the input " + file},
      {"embed " + file + model() + " --to tsv --out " + at("run/tokenizer.json"), 2,
       "is the input " + at("run/tokenizer.json")},
      {"fill-mask" + model() + " --to tsv --input " + file + " --out " + file, 2, "is the input"},
      {"predict " + at("SST-2") + " " + file + " --out " + file, 2, "is the input"},
      {"predict " + at("SST-2") + " " + dev + " --out " + dev, 2, "is the input"},
      {"matrix --text x" + model() + " --out " + at("run/model/model.safetensors"), 2,
       "is the input"},
      {"embed " + file + model() + " --out " + at("nowhere/v.npy"), 1, "nowhere"},
      {"embed " + at("absent.txt") + model(), 1, "absent.txt"},
      {"embed " + write("empty.txt", "") + model(), 1, "the input is empty"},
      {"embed " + write("bad.txt", "good\n\xff\xfe\n") + model() + " --out " + at("b.npy"), 1,
       "bad.txt: line 2: "},
      {"fill-mask" + model(), 2, "no texts"},
      {"fill-mask" + model() + " 'no mask'", 2, "\"no mask\": has no [MASK]"},
      {"fill-mask" + model() + " --input " + file, 1, "good.txt: line 1: has no [MASK]"},
      {"fill-mask --model " + at("SST-2") + " '[MASK]'", 1, "this is a classifier"},
      {"evaluate " + at("SST-2"), 2, "hydramix predict measures it"},
      {"evaluate " + at("absent"), 1, "is no folder"},
      {"predict " + at("SST-2"), 2, "no texts"},
      {"predict " + at("SST-2") + " --second x", 2, "without --text"},
      {"predict " + at("MRPC") + " --text one", 2, "which has pairs"},
      {"predict " + at("SST-2") + " --text one --second two", 2, "single sentences"},
      {"embed " + file + model() + " --device cuda", 2, "no GPU"}};
  for (const auto& [words, code, message] : cases) {
    const auto r = run_here(words);
    if (message == "no GPU" && r.code == 0) continue;  // there is one
    EXPECT_EQ(r.code, code) << words << "\n" << r.err;
    EXPECT_TRUE(contains(r.err, message)) << words << "\n" << r.err;
    EXPECT_EQ(r.out, "") << words;
  }
  EXPECT_FALSE(std::filesystem::exists(folder() / "b.npy"));
  const auto from_itself = test::run("embed -" + model() + " --to tsv --out " + file + " <" + file);
  EXPECT_EQ(from_itself.code, 2);
  EXPECT_TRUE(contains(from_itself.err, "is the input stdin")) << from_itself.err;
  EXPECT_EQ(read_file(folder() / "good.txt"), "the map\n");
  EXPECT_EQ(read_file(dev), dev_before);
  for (const auto& entry : std::filesystem::directory_iterator(folder().path()))
    EXPECT_FALSE(contains(entry.path().string(), ".tmp.")) << entry.path();
}

TEST_F(TextCommands, AClosedPipeEndsQuietly) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "the map is green .\n";
  write("long.txt", text);
  const auto r = test::run("embed " + at("long.txt") + model() + " 2>" + at("pipe.err") +
                           " | head -1 >" + at("pipe.out") + "; echo");
  EXPECT_EQ(r.code, 0);
  EXPECT_FALSE(contains(read_file(folder() / "pipe.err"), "error"));
  EXPECT_EQ(lines_of(read_file(folder() / "pipe.out")).size(), 1u);
}

// ---- fill-mask ----

TEST_F(TextCommands, FillMaskWritesTextJsonAndTables) {
  const std::string texts = " 'the [MASK] of [MASK]' 'a [MASK]'";
  const auto text = run_here("fill-mask" + model() + " --top 3" + texts);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(lines_of(text.out).size(), 2u + 9);
  EXPECT_TRUE(contains(text.out, "[MASK] 2:")) << text.out;
  const auto jsonl = lines_of(run_here("fill-mask" + model() + " --top 3 --to jsonl" + texts).out);
  ASSERT_EQ(jsonl.size(), 2u);
  const auto first = json::parse(jsonl[0]);
  EXPECT_EQ(first["text"], "the [MASK] of [MASK]");
  ASSERT_EQ(first["masks"].size(), 2u);
  ASSERT_EQ(first["masks"][1].size(), 3u);
  EXPECT_GE(first["masks"][0][0]["probability"], first["masks"][0][1]["probability"]);
  const auto table = lines_of(run_here("fill-mask" + model() + " --top 3 --to tsv" + texts).out);
  ASSERT_EQ(table.size(), 1u + 9);
  EXPECT_EQ(table[0], "text\tmask\ttoken\tprobability");
  EXPECT_TRUE(table[4].starts_with("1\t2\t" + first["masks"][1][0]["token"].get<std::string>()));
  // The same from a file, from stdin, and compressed by name of the output.
  const auto file = write("masks.jsonl", "\"the [MASK] of [MASK]\"\n\"a [MASK]\"\n");
  EXPECT_EQ(run_here("fill-mask" + model() + " --top 3 --input " + file).out, text.out);
  EXPECT_EQ(test::run("fill-mask" + model() + " --top 3 --format jsonl - <" + file).out, text.out);
  EXPECT_EQ(run_here("fill-mask" + model() + " --top 3 --out " + at("m.jsonl") + texts).code, 0);
  EXPECT_EQ(read_file(folder() / "m.jsonl"), jsonl[0] + "\n" + jsonl[1] + "\n");
}

// ---- predict ----

TEST_F(TextCommands, PredictGivesLabelsAndProbabilities) {
  const auto file = write("reviews.tsv", "id\tbody\n1\tthe map is green .\n2\tanna ran .\n");
  const auto jsonl = run_here("predict " + at("SST-2") + " " + file + " --field body --to jsonl");
  ASSERT_EQ(jsonl.code, 0) << jsonl.err;
  const auto lines = lines_of(jsonl.out);
  ASSERT_EQ(lines.size(), 2u);
  const auto first = json::parse(lines[0]);
  EXPECT_EQ(first["text"], "the map is green .");
  double sum = 0, best = 0;
  std::string label;
  for (const auto& [name, share] : first["probabilities"].items()) {
    sum += share.get<double>();
    if (share.get<double>() > best) label = name;
    best = std::max(best, share.get<double>());
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(first["label"], label);
  const auto table =
      lines_of(run_here("predict " + at("SST-2") + " " + file + " --field body --to tsv").out);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0], "label\t0\t1");
  EXPECT_TRUE(table[1].starts_with(label + "\t")) << table[1];
  const auto text = run_here("predict " + at("SST-2") + " --text 'the map is green .'").out;
  EXPECT_TRUE(text.starts_with(label + " ")) << text;
  EXPECT_TRUE(contains(text, " %  the map is green .\n")) << text;
}

TEST_F(TextCommands, PredictTakesPairsAndGivesScores) {
  const auto file = write("pairs.jsonl",
                          "[\"the map is green .\", \"the map is old .\"]\n"
                          "{\"a\": \"anna ran .\", \"b\": \"anna left .\", \"text\": \"\"}\n");
  const auto lines = lines_of(
      run_here("predict " + at("STS-B") + " " + file + " --field a --second-field b --to jsonl")
          .out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(json::parse(lines[0])["score"].is_number());
  EXPECT_EQ(json::parse(lines[1])["second"], "anna left .");
  EXPECT_FALSE(json::parse(lines[1]).contains("probabilities"));
  const auto one = run_here("predict " + at("STS-B") +
                            " --text 'the map is green .' --second 'the map is old .' --to tsv");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(std::stod(lines_of(one.out).at(1)), json::parse(lines[0])["score"].get<double>());
}

// ---- matrix --model ----

TEST_F(TextCommands, MatrixDrawsWhatAModelDoesToAText) {
  const auto draw = [&](const std::string& words, const std::string& name) {
    const auto r =
        run_here("matrix --text 'anna saw the green map .' " + words + " --out " + at(name));
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  draw(model(), "m.svg");
  const auto svg = read_file(folder() / "m.svg");
  for (const char* part : {"layer 1, head ", "layer 2, head ", "[CLS]", "anna", "map", "[SEP]"})
    EXPECT_TRUE(contains(svg, part)) << part;
  EXPECT_FALSE(contains(svg, "layer 3")) << "the model has two layers";
  draw(model() + " --layer 2", "heads.svg");
  EXPECT_TRUE(contains(read_file(folder() / "heads.svg"), "layer 2, head 4"));
  draw(model() + " --layer 1 --head 3", "one.npy");
  EXPECT_TRUE(contains(read_file(folder() / "one.npy"), "'shape': (1, 8, 8)"));
  draw(model() + " --head 3", "all.safetensors");
  EXPECT_TRUE(contains(read_file(folder() / "all.safetensors"), "layer.2.head.3"));
  draw("--model " + at("SST-2"), "c.png");
  EXPECT_TRUE(read_file(folder() / "c.png").starts_with("\x89PNG"));
  const auto cut = draw(model() + " --tokens 5", "cut.npy");
  EXPECT_TRUE(contains(cut.err, "the text has 8 tokens; only the first 5 are drawn")) << cut.err;
  for (const auto& [words, message] : std::vector<std::pair<std::string, std::string>>{
           {model(), "needs --text"},
           {"hydra" + model() + " --text x", "name one mixer"},
           {"hydra --text x", "Give --model"},
           {model() + " --text x --layer 3", "has 2 layers"},
           {model() + " --text x --head 9", "has 4 matrices"}}) {
    const auto r = run_here("matrix " + words + " --out " + at("no.svg"));
    EXPECT_EQ(r.code, 2) << words;
    EXPECT_TRUE(contains(r.err, message)) << r.err;
  }
}

}  // namespace
}  // namespace hydramix
