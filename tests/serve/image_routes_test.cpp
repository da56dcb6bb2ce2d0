// SPDX-License-Identifier: Apache-2.0
// /classify as a function: bodies in, answers out, with a model that computes nothing.
#include <nlohmann/json.hpp>

#include "fake_model.h"
#include "images/png.h"
#include "serve/numbers.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using nlohmann::json;

// The fake model's two outputs are the means of red and green.
std::string png(uint8_t red, uint8_t green, int64_t side = 4) {
  Image image(side, side);
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    image.rgb[i] = red;
    image.rgb[i + 1] = green;
  }
  return encode_png(image);
}

std::string in_base64(const std::string& bytes) {
  return base64({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

json answer_to(const std::string& body) {
  const auto prepared = prepare_classify(body, test::fake_context("images"));
  return json::parse(prepared.answer(test::fake_results(*prepared.work)));
}

std::string best(const json& labels) { return labels.at(0).at("label"); }

void expect_refusal(const std::string& body, int status, const std::string& part,
                    const RouteContext& context = test::fake_context("images")) {
  try {
    prepare_classify(body, context);
    ADD_FAILURE() << "accepted: " << body;
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ImageRoutes, ClassifyTakesAnImageOrBase64OrSeveral) {
  const auto red = png(250, 10), green = png(10, 250);
  EXPECT_EQ(best(answer_to(red)), "no");
  EXPECT_EQ(best(answer_to(green)), "yes");
  EXPECT_EQ(answer_to(json{{"inputs", in_base64(red)}}.dump()), answer_to(red));
  EXPECT_EQ(answer_to(json{{"inputs", "data:image/png;base64," + in_base64(red)}}.dump()),
            answer_to(red));
  const auto both = answer_to(json{{"inputs", {in_base64(red), in_base64(green)}}}.dump());
  EXPECT_EQ(both, json::array({answer_to(red), answer_to(green)}));
  EXPECT_EQ(answer_to(json{{"inputs", in_base64(red)}, {"top", 1}}.dump()).size(), 1U);
}

TEST(ImageRoutes, BadImagesAreNamed) {
  const auto good = png(250, 10);
  expect_refusal(good.substr(0, good.size() / 2), 422, "image 1");
  expect_refusal(json{{"inputs", {in_base64(good), in_base64("GIF89a")}}}.dump(), 422, "image 2");
  expect_refusal(json{{"inputs", "no base64!"}}.dump(), 400, "image 1 is not base64");
  expect_refusal(json{{"inputs", "data:image/png"}}.dump(), 400, "image 1 is not base64");
  expect_refusal(json{{"inputs", json::array()}}.dump(), 400, "inputs");
  expect_refusal(json{{"inputs", 7}}.dump(), 400, "inputs");
  expect_refusal(R"({"inputs": "", "topp": 1})", 400, "top");
  expect_refusal("neither", 400, "JSON");
}

TEST(ImageRoutes, LimitsHoldBeforeAnImageIsDecoded) {
  auto context = test::fake_context("images");
  context.limits.max_image_pixels = 15;
  expect_refusal(png(1, 2), 422, "4 x 4 pixels; expected at most 15", context);
  context = test::fake_context("images");
  context.limits.max_request_tokens = 7;  // two images have eight
  const auto image = in_base64(png(1, 2));
  expect_refusal(json{{"inputs", {image, image}}}.dump(), 422, "8 tokens", context);
  context.limits.max_client_batch_size = 1;
  expect_refusal(json{{"inputs", {image, image}}}.dump(), 422, "inputs", context);
}

TEST(ImageRoutes, ModelsOfTextsAndOfImagesAreToldApart) {
  expect_refusal(png(1, 2), 422, "/classify needs a model of hydramix train-images",
                 test::fake_context("classes"));
  try {
    prepare_tokenize(R"({"inputs": "w1"})", test::fake_context("images"));
    ADD_FAILURE() << "accepted";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 422);
    EXPECT_NE(std::string(error.what()).find("needs a model of texts"), std::string::npos);
  }
}

TEST(ImageRoutes, Base64GivesItsBytesBack) {
  std::vector<uint8_t> bytes;
  for (int length = 0; length < 300; ++length) {
    const auto text = base64(bytes);
    EXPECT_EQ(from_base64(text), bytes) << length;
    if (!text.empty()) {
      EXPECT_FALSE(from_base64(text.substr(1)));
      EXPECT_FALSE(from_base64("*" + text.substr(1)));
    }
    bytes.push_back(static_cast<uint8_t>(length * 37));
  }
  EXPECT_FALSE(from_base64("===="));
  EXPECT_FALSE(from_base64("A==="));
}

}  // namespace
}  // namespace hydramix::serve
