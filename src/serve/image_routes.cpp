// SPDX-License-Identifier: Apache-2.0
// The route that takes images: /classify. Its body is an image, or JSON with images in base64.
#include <algorithm>

#include "images/decode.h"
#include "serve/http_error.h"
#include "serve/numbers.h"
#include "serve/route_parts.h"

namespace hydramix::serve {
namespace {

constexpr int64_t kMostClasses = 1 << 20;  // as in hydramix classify

bool is_image(std::string_view bytes) {
  return bytes.starts_with("\xFF\xD8") || bytes.starts_with("\x89PNG");
}

std::vector<uint8_t> image_of(std::string_view text, const std::string& name) {
  // A data URL, as a browser makes it: "data:image/png;base64,..."
  if (text.starts_with("data:")) text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  auto bytes = from_base64(text);
  if (!bytes) throw bad_request(name, " is not base64; expected a JPEG or PNG image in base64.");
  return std::move(*bytes);
}

// (3, size, size)
std::vector<float> pixels_of(EncodedImage bytes, const std::string& name, const ModelFacts& model,
                             int64_t most_pixels) {
  try {
    const auto [height, width] = encoded_size(bytes, name);
    if (width * height > most_pixels)
      throw invalid(name, " has ", width, " x ", height, " pixels; expected at most ", most_pixels,
                    " (--max-image-pixels).");
    std::vector<float> pixels(model.transform->values());
    model.transform->evaluate(decode_image(bytes, name), pixels);
    return pixels;
  } catch (const HttpError&) {
    throw;
  } catch (const Error& error) {
    throw invalid(error.what());
  }
}

}  // namespace

PreparedRequest prepare_classify(std::string_view text, const RouteContext& context) {
  const bool raw = is_image(text);
  RequestBody body(raw ? "{}" : text);
  const auto model = chosen_model(body, context, "/classify");
  if (!model->transform) refuse_route(*model, "/classify", "a model of hydramix train-images");
  std::vector<std::vector<uint8_t>> images;
  bool several = false;
  if (raw) {
    const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
    images.emplace_back(begin, begin + text.size());
  } else {
    const auto& inputs = body.required("inputs");
    several = inputs.is_array();
    for (const auto& input : texts_of(inputs, "inputs", context.limits.max_client_batch_size))
      images.push_back(image_of(input, concat("image ", images.size() + 1)));
  }
  const auto top = static_cast<std::size_t>(body.integer("top", 5, 1, kMostClasses));
  body.finish();
  Work work{model, WorkKind::kImages, {}};
  if (std::ssize(images) * model->image_tokens > context.limits.max_request_tokens)
    throw invalid(images.size(), " images have ", std::ssize(images) * model->image_tokens,
                  " tokens together; expected at most ", context.limits.max_request_tokens,
                  " (--max-request-tokens). Send them in several requests.");
  for (const auto& image : images)
    work.images.push_back(pixels_of(image, concat("image ", work.images.size() + 1), *model,
                                    context.limits.max_image_pixels));
  return {model->name, std::move(work), [model, several, top](std::span<const WorkResult> results) {
            auto answer = nlohmann::ordered_json::array();
            for (const auto& result : results)
              answer.push_back(labels_of(result.shares, *model, top));
            return json_text(several ? answer : answer.front());
          }};
}

}  // namespace hydramix::serve
