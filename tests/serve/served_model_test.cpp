// SPDX-License-Identifier: Apache-2.0
// Real models behind the server: under load, whatever is computed together, answers have the bits
// of TextEmbedder, TextClassifier and FillMask, which hydramix embed, predict and fill-mask print.
#include "serve/served_model.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <map>
#include <thread>

#include "base/atomic_file.h"
#include "hydramix/image_classifier.h"
#include "hydramix/model_folder.h"
#include "hydramix/registry.h"
#include "hydramix/text_classifier.h"
#include "hydramix/text_embedder.h"
#include "images/jpeg.h"
#include "images/png.h"
#include "models/layer_matrices.h"
#include "models/text_model.h"
#include "raw_client.h"
#include "serve/numbers.h"
#include "serve/server.h"
#include "support/classifiers.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix::serve {
namespace {

using nlohmann::json;
using test::small_words;

class Served : public ::testing::Test {
 protected:
  Served() {
    const auto tokenizer = test::small_tokenizer();
    save_model(folder / "words", test::lively_masked_lm(), &tokenizer);
    save_classifier(folder / "classes", test::lively_classifier(2), "TEST", {"no", "yes"},
                    &tokenizer);
    save_classifier(folder / "score", test::lively_classifier(1), "TEST", {}, &tokenizer);
    save_image_model(folder / "images", ImageModel(test::tiny_image_model("hydra")),
                     {.classes = {"cat", "dog", "owl"}});
    options.port = 0;
    options.access_log = false;
    options.service.max_batch_tokens = 256;
    options.service.tokenizer_threads = 2;
  }
  void start() {
    std::vector<ModelPlace> places;
    for (const char* name : {"words", "classes", "score", "images"})
      places.push_back({name, folder / name});
    models = std::make_unique<ModelTable>(places, [](const ModelPlace& place) {
      auto model = open_served_model(place.name, place.folder, {.batch_tokens = 256});
      warm_up(model);
      return model;
    });
    server = std::make_unique<Server>(options, *models, compute_works);
    server->start();
    server->load();
    client = std::make_unique<test::RawClient>(server->port());
  }
  json post(const std::string& path, const json& body) {
    const auto reply = client->post(path, body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  void TearDown() override {
    client.reset();
    server->drain();
    EXPECT_TRUE(server->wait());
  }

  test::TemporaryFolder folder;
  ServerOptions options;
  std::unique_ptr<ModelTable> models;
  std::unique_ptr<Server> server;
  std::unique_ptr<test::RawClient> client;
};

TEST_F(Served, AnswersHaveTheBitsOfTheCommandsUnderLoadAndReload) {
  start();
  constexpr int kClients = 8, kRequests = 25;
  const auto embedder = TextEmbedder::open(folder / "words");
  const auto classifier = TextClassifier::open(folder / "classes");
  std::vector<std::thread> clients;
  std::atomic<int> compared = 0;
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      test::RawClient own(server->port());
      for (int r = 0; r < kRequests; ++r) {
        const auto text = small_words(1 + (c * 31 + r * 17) % 60, c + r);
        if (c % 2 == 0) {
          const json body{{"inputs", text}, {"model", "words"}, {"normalize", false}};
          const auto reply = own.post("/embed", body.dump());
          ASSERT_EQ(reply.status, 200) << reply.body;
          const auto vector = json::parse(reply.body)[0].get<std::vector<float>>();
          const auto expected = embedder.embed(text);
          ASSERT_EQ(vector.size(), expected.size());
          EXPECT_EQ(std::memcmp(vector.data(), expected.data(), 4 * expected.size()), 0);
        } else {
          const json body{{"inputs", text}, {"model", "classes"}};
          const auto reply = own.post("/predict", body.dump());
          ASSERT_EQ(reply.status, 200) << reply.body;
          const auto best = json::parse(reply.body)[0];
          const auto expected = classifier.classify({text, {}});
          EXPECT_EQ(best["label"], expected.label);
          EXPECT_EQ(best["score"].get<double>(),
                    expected.probabilities[static_cast<std::size_t>(expected.value)]);
        }
        ++compared;
      }
    });
  for (int i = 0; i < 3; ++i) post("/reload", json::object());
  for (auto& thread : clients) thread.join();
  EXPECT_EQ(compared, kClients * kRequests);
}

TEST_F(Served, FillMaskHasTheWordsOfFillMask) {
  start();
  const auto expected = FillMask::open(folder / "words").fill("w1 [MASK] w3 [MASK]", 3);
  const auto answer = post("/fill-mask", {{"inputs", "w1 [MASK] w3 [MASK]"}, {"top", 3}})[0];
  ASSERT_EQ(answer["masks"].size(), 2);
  for (std::size_t m = 0; m < 2; ++m)
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(answer["masks"][m][k]["token"], expected.masks[m][k].token);
      EXPECT_EQ(answer["masks"][m][k]["probability"].get<double>(),
                expected.masks[m][k].probability);
    }
}

TEST_F(Served, TokenVectorsAreThoseWhoseMeanIsTheVector) {
  start();
  const auto rows = post("/embed_all", {{"inputs", "w1 w2 w3"}})[0];
  const auto mean = post("/embed", {{"inputs", "w1 w2 w3"}, {"normalize", false}})[0];
  ASSERT_EQ(rows.size(), 5);
  for (std::size_t d = 0; d < mean.size(); ++d) {
    double sum = 0;
    for (const auto& row : rows) sum += row[d].get<double>();
    EXPECT_NEAR(sum / 5, mean[d].get<double>(), 1e-5);
  }
}

TEST_F(Served, RerankHasTheScoresOfPredict) {
  start();
  const auto classifier = TextClassifier::open(folder / "score");
  const auto answer = post("/rerank", {{"query", "w1 w2"},
                                       {"texts", {"w3", "w4 w5", "w6 w7 w8"}},
                                       {"model", "score"},
                                       {"return_text", true}});
  ASSERT_EQ(answer.size(), 3);
  double before = INFINITY;
  for (const auto& entry : answer) {
    const auto expected = classifier.classify({"w1 w2", entry["text"].get<std::string>()});
    EXPECT_EQ(entry["score"].get<double>(), expected.value);
    EXPECT_LE(entry["score"].get<double>(), before);
    before = entry["score"];
  }
}

TEST_F(Served, ClassesOfImagesHaveTheBitsOfTheClassifier) {
  start();
  const auto classifier = ImageClassifier::open(folder / "images");
  std::vector<std::filesystem::path> files;
  json images = json::array();
  for (int k = 0; k < 5; ++k) {
    Image image(9 + k, 14);
    for (std::size_t i = 0; i < image.rgb.size(); ++i)
      image.rgb[i] = static_cast<uint8_t>(i * static_cast<std::size_t>(k + 3));
    const auto bytes = k % 2 == 0 ? encode_png(image) : encode_jpeg(image, 90);
    files.push_back(folder / std::to_string(k));
    write_file(files.back(), bytes);
    images.push_back(base64({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
    // The only model that answers the route, so it needs no name.
    const auto reply = client->post("/classify", bytes);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const auto labels = json::parse(reply.body);
    const auto wanted = classifier.classify(files.back());
    EXPECT_EQ(labels[0]["label"], wanted.label);
    EXPECT_EQ(labels[0]["score"], wanted.probabilities[wanted.number]);
  }
  const auto wanted = classifier.classify(files);
  const auto together = post("/classify", {{"inputs", images}, {"model", "images"}});
  for (std::size_t k = 0; k < wanted.size(); ++k)
    EXPECT_EQ(together[k][0]["score"], wanted[k].probabilities[wanted[k].number]) << k;
  EXPECT_EQ(client->post("/embed", R"({"inputs": "a", "model": "images"})").status, 422);
  EXPECT_EQ(json::parse(client->get("/info").body)["models"][3]["routes"],
            json::array({"/classify"}));
}

TEST_F(Served, MatricesAreThoseOfTheLayers) {
  start();
  const std::string text = "w1 w2 w3 w4";
  const auto opened = TextModel::open(folder / "words", {}, 0);
  const auto encoding = opened->tokenizer().encode(text);
  std::vector<torch::Tensor> layers;
  opened->for_each_batch(std::span(&encoding, 1), [&](auto, const PackedBatch& batch) {
    layers = layer_matrices(opened->module(), opened->encoder_options(),
                            [&](const auto& observe) { opened->hidden(batch, observe); });
  });
  const auto all = post("/matrix", {{"inputs", text}});
  ASSERT_EQ(all["thumbnails"].size(), layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    EXPECT_EQ(all["heads"][layer], layers[layer].size(0));
    const auto one = post("/matrix", {{"inputs", text}, {"layer", layer + 1}, {"head", 2}});
    const auto M = layers[layer][1];
    const double scale = all["thumbnails"][layer][1]["scale"];
    EXPECT_EQ(scale, M.abs().max().item<double>());
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        const auto at = [&](const char* part) { return one[part][i][j].get<double>(); };
        EXPECT_EQ(at("whole"), M[i][j].item<double>());
        const double diagonal = i == j ? one["diagonal"][i].get<double>() : 0;
        EXPECT_EQ(at("forward") + at("backward") + diagonal, at("whole"));
      }
    for (const char* side : {"below", "above"})
      for (const auto& rank : one["ranks"][side]) EXPECT_LE(rank.get<int>(), 8);  // d_state
  }
  const auto reply = client->post("/matrix", R"({"inputs": "w1", "layer": 1, "head": 99})");
  EXPECT_EQ(reply.status, 422);
}

// A batch with the text first, among others, last, and two of it in one request.
TEST(ServedBatches, GiveEveryMixersTextTheBitsThatItHasAlone) {
  for (const auto& mixer : mixer_names()) {
    SCOPED_TRACE(mixer);
    torch::manual_seed(5);
    auto options = test::tiny_bert(mixer);
    options.vocab = 25;
    options.initial_deviation = 0.3;
    options.block.mixer_options.max_length = 300;
    const auto model = std::make_shared<ServedModel>(
        std::make_shared<const TextModel>(BertForMaskedLM(options), test::small_tokenizer(),
                                          TextModelOptions{.batch_tokens = 512}, 0));
    const auto work = [&](WorkKind kind, const std::vector<int64_t>& lengths) {
      Work made{model, kind, {}};
      for (const auto length : lengths)
        made.texts.push_back(model->tokenizer->encode(test::small_words(length, length)));
      return made;
    };
    for (const auto kind : {WorkKind::kVectors, WorkKind::kTokenVectors})
      for (const int64_t length : {1, 5, 17, 60, 270}) {
        const auto numbers = [&](const WorkResult& result) {
          return kind == WorkKind::kVectors ? result.vector : result.token_vectors;
        };
        const auto one = work(kind, {length}), other = work(kind, {3, 9, length, 258, 16, 2, 100}),
                   two = work(kind, {length, 31, length});
        const Work* alone[] = {&one};
        const Work* together[] = {&one, &other, &two, &one};
        const auto expected = numbers(compute_works(alone)[0][0]);
        const auto all = compute_works(together);
        for (const auto* result : {&all[0][0], &all[1][2], &all[2][0], &all[2][2], &all[3][0]}) {
          const auto given = numbers(*result);
          ASSERT_EQ(given.size(), expected.size());
          EXPECT_EQ(std::memcmp(given.data(), expected.data(), 4 * given.size()), 0) << length;
        }
      }
  }
}

}  // namespace
}  // namespace hydramix::serve
