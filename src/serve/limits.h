// SPDX-License-Identifier: Apache-2.0
// The limits of a server. Every limit is a flag of `hydramix serve`.
#pragma once

#include <cstdint>

#include "hydramix/options.h"
#include "images/decode.h"

namespace hydramix::serve {

struct Limits {
  int64_t max_connections = 16384;
  int64_t max_concurrent_requests = 512;
  int64_t max_batch_tokens = 0;
  int64_t max_client_batch_size = 32;
  int64_t max_request_tokens = 16384;
  int64_t max_openai_inputs = 2048;     // OpenAI's limit
  int64_t max_openai_tokens = 300'000;  // the same
  int64_t max_body = 2 << 20;
  int64_t max_image_pixels = 20'000'000;
  double header_seconds = 10;
  double body_seconds = 30;
  double write_seconds = 60;
  double idle_seconds = 75;
  double deadline_seconds = 60;
  double drain_seconds = 30;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("max_connections", self.max_connections, Range{1, 1 << 20},
      "connections at once; a further one is answered with 503 and closed");
    v("max_concurrent_requests", self.max_concurrent_requests, Range{1, 1 << 20},
      "requests that wait, are computed or whose answers are being sent; a further one is answered "
      "with 429 at once");
    v("max_batch_tokens", self.max_batch_tokens, Range{0, 1 << 24},
      "tokens computed at once; 0: 2048 on the CPU, 16384 on a GPU");
    v("max_client_batch_size", self.max_client_batch_size, Range{1, 1 << 20}, "texts of a request");
    v("max_request_tokens", self.max_request_tokens, Range{3, 1 << 24}, "tokens of a request");
    v("max_openai_inputs", self.max_openai_inputs, Range{1, 1 << 20},
      "texts of a request to /v1/embeddings");
    v("max_openai_tokens", self.max_openai_tokens, Range{3, 1 << 24},
      "tokens of a request to /v1/embeddings");
    v("max_image_pixels", self.max_image_pixels, Range{1, kMaxImagePixels},
      "pixels of an image, which takes three bytes for each while it is decoded");
    v("max_body", self.max_body, Range{1, 1 << 30}, "bytes of a request's body");
    v("header_seconds", self.header_seconds, Range{0.01, 3600.0},
      "time in which a request's header must arrive");
    v("body_seconds", self.body_seconds, Range{0.01, 3600.0},
      "time in which a request's body must arrive");
    v("write_seconds", self.write_seconds, Range{0.01, 86400.0},
      "time in which a client must take its answer");
    v("idle_seconds", self.idle_seconds, Range{0.01, 86400.0},
      "time after which a connection without a request is closed");
    v("deadline_seconds", self.deadline_seconds, Range{0.01, 86400.0},
      "time after which a request that still waits is answered with 503");
    v("drain_seconds", self.drain_seconds, Range{0.0, 86400.0},
      "time to answer accepted requests after SIGTERM");
  }
};

}  // namespace hydramix::serve
