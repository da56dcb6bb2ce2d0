// SPDX-License-Identifier: Apache-2.0
// hydramix train-images and classify: what they print, their errors, and two ranks.
#include <thread>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/image_classifier.h"
#include "support/in_process.h"
#include "support/ports.h"
#include "support/tiny_run.h"
#include "view/png.h"

namespace hydramix {
namespace {

using test::contains;
using test::run;
using test::run_here;
using test::TemporaryFolder;

const std::string kTinyImages =
    "train-images --device cpu --model.size 16 --model.patch 4 --model.layers 1 "
    "--model.block.d-model 16 --model.block.headdim 8 --model.block.mixer-options.d-state 8 "
    "--model.stochastic-depth 0.2 --augment.size 16 --data.drawn.side 16 --data.drawn.train 40 "
    "--data.drawn.validation 20 --train.epochs 1 --train.warmup-epochs 0 --train.batch 8 "
    "--train.micro-batch 4 --train.optimizer.ema 0.9 --data.workers 1 ";

std::string tiny_images(const std::filesystem::path& out) {
  return kTinyImages + "--out " + out.string();
}

// One run for all tests of classify.
const std::filesystem::path& image_run() {
  static const TemporaryFolder folder;
  static const std::filesystem::path path = [] {
    const auto r = run_here(tiny_images(folder / "run"));
    EXPECT_EQ(r.code, 0) << r.err;
    return folder / "run";
  }();
  return path;
}

void write_picture(const std::filesystem::path& path, uint8_t grey) {
  const Canvas canvas(20, 12, Rgb{grey, grey, 90});
  write_file(path, encode_png(canvas));
}

TEST(TrainImagesCommand, ReportsTop1AndTop5) {
  const TemporaryFolder folder;
  const auto r = run_here(tiny_images(folder / "run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "20 images: loss ")) << r.out;
  EXPECT_TRUE(contains(r.out, "average of the weights: loss ")) << r.out;
  EXPECT_TRUE(contains(r.out, "/run/confusion.svg\nmodel: ")) << r.out;
  EXPECT_TRUE(contains(r.err, "building hydra: ")) << r.err;
  EXPECT_TRUE(contains(r.err, "10 classes of 16 x 16")) << r.err;
  EXPECT_TRUE(contains(r.err, "5 steps of 8 images")) << r.err;
}

TEST(TrainImagesCommand, RefusesBadRequestsBeforeTraining) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& words, int code, const std::string& message) {
    const auto r = run_here(tiny_images(folder / "run") + " " + words);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_TRUE(contains(r.err, message)) << r.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  std::filesystem::create_directories(folder / "empty");
  std::filesystem::create_directories(folder / "one/train/cat");
  std::filesystem::create_directories(folder / "one/val/cat");
  write_picture(folder / "one/train/cat/a.png", 10);
  write_picture(folder / "one/val/cat/b.png", 20);
  refused("--data.path " + (folder / "empty").string(), 1, "empty");
  refused("--data.path " + (folder / "one").string(), 1, "class");
  refused("--model.patch 5", 2, "model.patch: patches of 5 pixels");
  refused("--model.pooling first --model.block.mixer semiseparable", 2, "model.pooling: ");
  refused("--augment.size 32", 2, "augment.size: 32 pixels, but model.size is 16");
  refused("--train.epochs 0", 2, "train.epochs");
  refused("--from " + (folder / "empty").string(), 1, "has no config.json");
}

// 2 x 4 images on two ranks are the 8 of one, up to the rounding of the reduction.
TEST(TrainImagesCommand, TwoRanksTrainOneModel) {
  const TemporaryFolder folder;
  const auto port = std::to_string(test::free_port());
  const auto environment = [&](int rank) {
    return "RANK=" + std::to_string(rank) + " LOCAL_RANK=" + std::to_string(rank) +
           " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port;
  };
  const auto arguments = tiny_images(folder / "run");
  test::Result second{};
  std::thread other([&] { second = run(arguments, "env " + environment(1)); });
  const auto first = run(arguments, "env " + environment(0));
  other.join();
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  const auto last_loss = [](const std::filesystem::path& out) {
    const auto text = read_file(out / "metrics.jsonl");
    const auto at = text.rfind("\"evaluation/loss\":");
    return std::stod(text.substr(at + 18));
  };
  EXPECT_NEAR(last_loss(folder / "run"), last_loss(image_run()), 1e-4);
}

TEST(ClassifyCommand, ListsClassesWithProbabilities) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "pictures/more");
  write_picture(folder / "pictures/b.png", 50);
  write_picture(folder / "pictures/more/a.png", 200);
  write_file(folder / "pictures/notes.txt", "no image");
  const auto model = image_run().string();
  const auto pictures = (folder / "pictures").string();

  const auto json = run_here("classify " + model + " " + pictures + " --to jsonl --top 3");
  ASSERT_EQ(json.code, 0) << json.err;
  std::istringstream lines(json.out);
  std::string line;
  std::vector<nlohmann::json> answers;
  while (std::getline(lines, line)) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["image"], pictures + "/b.png");
  EXPECT_EQ(answers[1]["image"], pictures + "/more/a.png");
  ASSERT_EQ(answers[0]["classes"].size(), 3u);
  EXPECT_EQ(answers[0]["classes"][0]["label"], answers[0]["label"]);
  EXPECT_GE(answers[0]["classes"][0]["probability"], answers[0]["classes"][1]["probability"]);

  // The C++ twin gives the same.
  const auto classifier = ImageClassifier::open(image_run() / "model");
  const auto answer = classifier.classify(folder / "pictures/b.png");
  EXPECT_EQ(answer.label, answers[0]["label"]);
  EXPECT_EQ(answer.probabilities[answer.number], answers[0]["classes"][0]["probability"]);
  double sum = 0;
  for (const double p : answer.probabilities) sum += p;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(classifier.size(), 16);

  const auto text = run_here("classify " + model + " " + pictures + "/b.png --top 1 --batch 1");
  EXPECT_EQ(text.out.find(pictures + "/b.png\t" + answer.label + " "), 0u) << text.out;
  const auto average = run_here("classify " + model + " " + pictures + "/b.png --weights average");
  EXPECT_EQ(average.code, 0) << average.err;
  const auto file = run_here("classify " + model + " " + pictures + " --to jsonl --top 3 --out " +
                             (folder / "answers.jsonl").string());
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(read_file(folder / "answers.jsonl"), json.out);
}

TEST(MatrixCommand, DrawsWhatAModelDoesToAnImage) {
  const TemporaryFolder folder;
  const auto picture = (folder / "a.png").string();
  write_picture(picture, 200);
  const auto draw = [&](const std::string& words, const std::string& name) {
    return run_here("matrix --model " + image_run().string() + " " + words + " --out " +
                    (folder / name).string());
  };
  const auto r = draw("--image " + picture, "m.svg");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "16 x 16, layer.head 1.")) << r.out;
  const auto svg = read_file(folder / "m.svg");
  for (const char* part : {"layer 1, head ", ">1,1<", ">4,4<"})
    EXPECT_TRUE(contains(svg, part)) << part;
  EXPECT_EQ(draw("--which average --layer 1 --image " + picture, "m.npy").code, 0);
  EXPECT_TRUE(contains(read_file(folder / "m.npy"), "'shape': (4, 16, 16)"));
  for (const auto& [words, code, message] : std::vector<std::tuple<std::string, int, std::string>>{
           {"", 2, "is a model of images. Give --image"},
           {"--text x", 2, "Give --image"},
           {"--which best --image " + picture, 2, "has no weights 'best'"},
           {"--layer 9 --image " + picture, 2, "has 1 layers"},
           {"--image " + (folder / "none.png").string(), 1, "none.png"},
           {"--image " + image_run().string() + "/config.json", 1, "config.json"}}) {
    const auto refused = draw(words, "no.svg");
    EXPECT_EQ(refused.code, code) << words << refused.err;
    EXPECT_TRUE(contains(refused.err, message)) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "no.svg"));
}

TEST(ClassifyCommand, NamesWhatItCannotUse) {
  const TemporaryFolder folder;
  write_picture(folder / "good.png", 50);
  write_file(folder / "broken.png", read_file(folder / "good.png").substr(0, 40));
  write_file(folder / "text.png", "this is no image");
  std::filesystem::create_directories(folder / "nothing");
  const auto refused = [&](const std::string& words, int code, const std::string& message) {
    const auto r = run_here("classify " + words);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_TRUE(contains(r.err, message)) << r.err;
  };
  const auto model = image_run().string() + " ";
  for (const char* name : {"broken.png", "text.png"})
    refused(model + (folder / "good.png").string() + " " + (folder / name).string(), 1, name);
  refused(model + (folder / "missing.png").string(), 1, "missing.png: does not exist");
  refused(model + (folder / "nothing").string(), 1, "nothing: holds no images");
  refused(model + (folder / "good.png").string() + " --out " + (folder / "good.png").string(), 2,
          "which would be lost");
  refused((folder / "nothing").string() + " " + (folder / "good.png").string(), 1,
          "has no config.json");
  refused((image_run() / "model").string() + " " + (folder / "good.png").string() +
              " --weights average",
          2, "has no weights 'average'");
  refused(model.substr(0, model.size() - 1), 2, "IMAGES: nothing given");
  test::make_language_run(folder / "text");
  refused((folder / "text/model").string() + " " + (folder / "good.png").string(), 1,
          "is a model of texts; expected one of images");
  // And the reverse.
  for (const auto& folder_of_images : {image_run(), image_run() / "model"}) {
    const auto path = folder_of_images.string();
    for (const auto& command :
         {"predict " + path + " --text hello", "fill-mask hello --model " + path,
          "evaluate --data language " + path, "embed notes.txt --model " + path}) {
      const auto r = run_here(command);
      EXPECT_EQ(r.code, 1) << command << r.err;
      EXPECT_TRUE(contains(r.err, "images")) << command << r.err;
    }
  }
}

}  // namespace
}  // namespace hydramix
