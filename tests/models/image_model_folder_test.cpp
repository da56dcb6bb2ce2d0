// SPDX-License-Identifier: Apache-2.0
// Folders of image models, and what they are told apart from.
#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/tensor_file.h"
#include "support/expect.h"
#include "support/models.h"

namespace hydramix {
namespace {

using Json = nlohmann::ordered_json;

const ImageTask kAnimals{.classes = {"cat", "dog", "owl"}, .crop_fraction = 1.0};

TEST(ImageModelFolder, LoadsTheSameModel) {
  const test::TemporaryFolder folder;
  auto options = test::tiny_image_model("attention");
  options.positions = true;
  options.pooling = "first";
  ImageModel model(options);
  save_image_model(folder.path(), model, kAnimals);
  const auto loaded = load_image_model(folder.path());
  EXPECT_EQ(loaded.classes, kAnimals.classes);
  EXPECT_EQ(loaded.crop_fraction, 1.0);
  EXPECT_EQ(to_json(loaded.model->options()), to_json(model->options()));
  const auto pixels = torch::randn({2, 3, 8, 8});
  EXPECT_TRUE(loaded.model->forward(pixels).equal(model->forward(pixels)));
}

TEST(ImageModelFolder, TellsImagesFromTexts) {
  const test::TemporaryFolder images, texts, run;
  save_image_model(images.path(), ImageModel(test::tiny_image_model("hydra")), kAnimals);
  save_model(texts.path(), BertForMaskedLM(test::tiny_bert("hydra")));
  EXPECT_THROW_WITH(load_model(images.path()), Error,
                    "config.json: is a model of images; expected one of texts. hydramix classify");
  EXPECT_THROW_WITH(load_classifier(images.path()), Error, "is a model of images");
  EXPECT_THROW_WITH(load_image_model(texts.path()), Error,
                    "config.json: is a model of texts; expected one of images. hydramix predict");
  write_file(run / "config.json", R"({"augment": {}, "train": {}})");
  EXPECT_THROW_WITH(load_model(run.path()), Error,
                    "is the folder of a run of train-images; the model, which is one of images");
}

// Folders of earlier programs do not have the options that came later.
TEST(ImageModelFolder, OlderModelsHaveTheValuesThatTheyImplied) {
  const test::TemporaryFolder folder;
  save_image_model(folder.path(), ImageModel(test::tiny_image_model("hyena")), kAnimals);
  auto config = read_json(folder / "config.json", kConfigFile);
  auto& model = config["image_model"];
  for (const char* key : {"input_bias", "dropout"}) EXPECT_EQ(model["mlp"].erase(key), 1u) << key;
  EXPECT_EQ(model["block"]["mixer_options"].erase("filter_layers"), 1u);
  const auto file = load_tensors(folder / "model.safetensors");
  save_tensors(folder / "model.safetensors", file.tensors, {{"config", config.dump()}});
  write_file(folder / "config.json", config.dump());
  const auto options = load_image_model(folder.path()).model->options();
  EXPECT_TRUE(options.mlp.input_bias);
  EXPECT_EQ(options.mlp.dropout, 0);
  EXPECT_EQ(options.block.mixer_options.filter_layers, 4);
}

TEST(ImageModelFolder, RefusesClassesThatDoNotFit) {
  const test::TemporaryFolder folder;
  ImageModel model(test::tiny_image_model("hydra"));
  EXPECT_THROW_WITH(save_image_model(folder.path(), model, {.classes = {"cat", "dog"}}), Error,
                    "2 names for 3 classes; expected one for each");
  EXPECT_THROW_WITH(save_image_model(folder.path(), model, {.classes = {"cat", "dog", "cat"}}),
                    Error, "the class \"cat\" stands twice");
}

TEST(ImageModelFolder, RefusesDamagedConfigs) {
  const test::TemporaryFolder folder;
  save_image_model(folder.path(), ImageModel(test::tiny_image_model("hydra")), kAnimals);
  const auto path = folder / "config.json";
  const auto good = read_json(path, kConfigFile);
  const auto expect_refused = [&](const std::function<void(Json&)>& damage, const char* message) {
    auto config = good;
    damage(config);
    write_file(path, config.dump());
    EXPECT_THROW_WITH(load_image_model(folder.path()), Error, message);
  };
  expect_refused([](Json& c) { c.erase("images"); }, "the key 'images' is missing");
  expect_refused([](Json& c) { c["image_model"].erase("patch"); },
                 "the key 'image_model.patch' is missing");
  expect_refused([](Json& c) { c["images"]["classes"] = {"cat"}; }, "1 names for 3 classes");
  expect_refused([](Json& c) { c["images"]["deviations"] = {1, 0, 1}; }, "deviations are above 0");
  expect_refused([](Json& c) { c["images"]["crop_fraction"] = 0.5; },
                 "the weights were saved with another config");
  expect_refused([](Json& c) { c["image_model"]["layers"] = 4000; },
                 "describes a module of at least");
  expect_refused([](Json& c) { c["image_model"]["patch"] = 3; }, "do not fill an image of 8");
}

}  // namespace
}  // namespace hydramix
