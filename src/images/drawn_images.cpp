// SPDX-License-Identifier: Apache-2.0
// Shapes are signed distances: negative inside, in units of the object's radius. A pixel's coverage
// falls from 1 to 0 over the width of one pixel, which smooths edges without oversampling.
#include "images/drawn_images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr float kTwoPi = 2 * std::numbers::pi_v<float>;
constexpr uint64_t kDrawnStream = 0x4452574E;  // differs from the other streams of the seed

using DrawnColour = std::array<float, 3>;

enum Outline { kDisc, kRing, kSquare, kTriangle, kCross };
enum Filling { kPlain, kStripes, kChecks, kDots, kTarget, kFade };

struct Point {
  float x, y;
};

float between(Random& random, float low, float high) {
  return low + (high - low) * static_cast<float>(random.uniform());
}

DrawnColour any_colour(Random& random) {
  DrawnColour colour;
  for (float& channel : colour) channel = between(random, 0.1f, 0.9f);
  return colour;
}

float colour_distance(const DrawnColour& a, const DrawnColour& b) {
  float sum = 0;
  for (std::size_t c = 0; c < 3; ++c) sum += std::abs(a[c] - b[c]);
  return sum;
}

// The first of a few random colours that differs enough from the others, or else the last.
DrawnColour contrasting(Random& random, const std::vector<DrawnColour>& others) {
  DrawnColour colour{};
  for (int attempt = 0; attempt < 20; ++attempt) {
    colour = any_colour(random);
    if (std::all_of(others.begin(), others.end(), [&](const DrawnColour& other) {
          return colour_distance(colour, other) > 0.7f;
        }))
      break;
  }
  return colour;
}

float outline_distance(Outline outline, Point p) {
  const float radius = std::hypot(p.x, p.y), x = std::abs(p.x), y = std::abs(p.y);
  switch (outline) {
    case kDisc:
      return radius - 0.9f;
    case kRing:
      return std::abs(radius - 0.75f) - 0.25f;
    case kSquare:
      return std::max(x, y) - 0.8f;
    case kTriangle:  // three half-planes
      return std::max(0.8660254f * x + 0.5f * p.y, -p.y) - 0.55f;
    default:
      return std::min(std::max(x - 1, y - 0.33f), std::max(x - 0.33f, y - 1));
  }
}

// The share of the second colour at a point of the object.
float filling_share(Filling filling, Point p, float period) {
  const auto edge = [](float wave) { return std::clamp(0.5f + 1.5f * wave, 0.0f, 1.0f); };
  const auto wave = [&](float length) { return std::sin(kTwoPi * length / period); };
  switch (filling) {
    case kPlain:
      return 0;
    case kStripes:
      return edge(wave(p.x));
    case kChecks:
      return edge(2 * wave(p.x / 1.6f) * wave(p.y / 1.6f));
    case kDots: {
      const auto from_centre = [&](float along) {
        return along / period - std::floor(along / period) - 0.5f;
      };
      const float distance = std::hypot(from_centre(p.x), from_centre(p.y));
      return std::clamp(0.5f + 6 * (0.3f - distance), 0.0f, 1.0f);
    }
    case kTarget:
      return edge(wave(std::hypot(p.x, p.y)));
    default:
      return std::clamp(0.5f + 0.55f * p.x, 0.0f, 1.0f);
  }
}

// A colour, a slope, and three waves across the picture.
class Ground {
 public:
  Ground(Random& random, const DrawnColour& colour) : colour_(colour) {
    for (Wave& wave : waves_) {
      const float angle = between(random, 0, kTwoPi), cycles = between(random, 0.3f, 5);
      wave.along = {cycles * std::cos(angle), cycles * std::sin(angle)};
      wave.phase = between(random, 0, kTwoPi);
      for (float& height : wave.heights) height = between(random, -0.08f, 0.08f);
    }
  }

  DrawnColour at(Point p) const {
    DrawnColour colour = colour_;
    for (const Wave& wave : waves_) {
      const float height =
          std::sin(kTwoPi * (wave.along.x * p.x + wave.along.y * p.y) + wave.phase);
      for (std::size_t c = 0; c < 3; ++c) colour[c] += height * wave.heights[c];
    }
    return colour;
  }

 private:
  struct Wave {
    Point along;
    float phase;
    DrawnColour heights;
  };
  DrawnColour colour_;
  std::array<Wave, 4> waves_;
};

struct Speck {
  Point centre;
  float radius;
  DrawnColour colour;
};

struct DrawnObject {
  Outline outline;
  Filling filling;
  Point centre;
  float radius, cosine, sine, period;
  DrawnColour first, second;
};

void blend(DrawnColour& below, const DrawnColour& above, float share) {
  for (std::size_t c = 0; c < 3; ++c) below[c] += share * (above[c] - below[c]);
}

// Lengths are in units of the shorter side of the picture.
DrawnObject any_object(Random& random, int64_t label, const DrawnColour& ground, Point extent) {
  DrawnObject object{};
  object.outline = static_cast<Outline>(label);
  object.filling = kPlain;
  object.radius = between(random, 0.2f, 0.38f);
  if (label > kCross) {
    object.outline =
        std::array{kDisc, kSquare, kTriangle}[static_cast<std::size_t>(random.below(3))];
    object.filling = static_cast<Filling>(label - kCross);
    object.radius = between(random, 0.28f, 0.42f);
  }
  const float margin = 0.9f * object.radius;
  object.centre = {between(random, margin, extent.x - margin),
                   between(random, margin, extent.y - margin)};
  const float angle = between(random, 0, kTwoPi);
  object.cosine = std::cos(angle);
  object.sine = std::sin(angle);
  object.period = between(random, 0.5f, 0.75f);
  object.first = contrasting(random, {ground});
  object.second = contrasting(random, {ground, object.first});
  return object;
}

class DrawnImages final : public ImageCollection {
 public:
  DrawnImages(const DrawnOptions& options, ImageSplit split) : options_(options), split_(split) {
    validate(options);
  }

  int64_t size() const override {
    return split_ == ImageSplit::kTrain ? options_.train : options_.validation;
  }
  const std::vector<std::string>& classes() const override { return drawn_classes(); }
  int64_t label(int64_t i) const override { return i % std::ssize(drawn_classes()); }
  std::string name(int64_t i) const override {
    return concat("drawn ", split_name(), " image ", i, " of seed ", options_.seed);
  }
  Image load(int64_t i) const override {
    return draw_image({static_cast<uint64_t>(options_.seed), split_, i},
                      {options_.side, options_.side});
  }
  std::string fingerprint() const override {
    return concat("drawn-", split_name(), "-", size(), "-", options_.side, "-", options_.seed);
  }

 private:
  const char* split_name() const { return split_ == ImageSplit::kTrain ? "train" : "validation"; }

  DrawnOptions options_;
  ImageSplit split_;
};

}  // namespace

const std::vector<std::string>& drawn_classes() {
  static const std::vector<std::string> names = {"disc",    "ring",   "square", "triangle", "cross",
                                                 "stripes", "checks", "dots",   "target",   "fade"};
  return names;
}

Image draw_image(const DrawnKey& key, const ImageSize& size) {
  Random random(key.seed, kDrawnStream + static_cast<uint64_t>(key.split),
                static_cast<uint64_t>(key.number));
  const auto unit = static_cast<float>(std::min(size.height, size.width));
  const Point extent{static_cast<float>(size.width) / unit, static_cast<float>(size.height) / unit};
  const DrawnColour colour = any_colour(random);
  const Ground ground(random, colour);
  const DrawnObject object =
      any_object(random, key.number % std::ssize(drawn_classes()), colour, extent);
  std::array<Speck, 4> specks;
  for (Speck& speck : specks)
    speck = {{between(random, 0, extent.x), between(random, 0, extent.y)},
             between(random, 0.02f, 0.05f),
             any_colour(random)};

  Image image(size.height, size.width);
  for (int64_t row = 0; row < size.height; ++row)
    for (int64_t column = 0; column < size.width; ++column) {
      const Point p{(static_cast<float>(column) + 0.5f) / unit,
                    (static_cast<float>(row) + 0.5f) / unit};
      DrawnColour pixel = ground.at(p);
      const auto coverage = [&](float distance) {
        return std::clamp(0.5f - distance * unit, 0.0f, 1.0f);
      };
      for (const Speck& speck : specks)
        blend(pixel, speck.colour,
              coverage(std::hypot(p.x - speck.centre.x, p.y - speck.centre.y) - speck.radius));
      const float x = (p.x - object.centre.x) / object.radius;
      const float y = (p.y - object.centre.y) / object.radius;
      const Point turned{object.cosine * x + object.sine * y, object.cosine * y - object.sine * x};
      const float share = coverage(outline_distance(object.outline, turned) * object.radius);
      if (share > 0) {
        DrawnColour above = object.first;
        blend(above, object.second, filling_share(object.filling, turned, object.period));
        blend(pixel, above, share);
      }
      // The sum of two uniform numbers, 10 bits each, for each channel: a deviation of 0.05.
      uint64_t bits = random.next();
      for (std::size_t c = 0; c < 3; ++c, bits >>= 20) {
        const auto sum = static_cast<float>((bits & 1023) + ((bits >> 10) & 1023));
        const float value = pixel[c] + 0.12f * (sum / 1023 - 1);
        image.pixel(row, column)[c] =
            static_cast<uint8_t>(std::lround(255 * std::clamp(value, 0.0f, 1.0f)));
      }
    }
  return image;
}

std::unique_ptr<ImageCollection> drawn_images(const DrawnOptions& options, ImageSplit split) {
  return std::make_unique<DrawnImages>(options, split);
}

}  // namespace hydramix
