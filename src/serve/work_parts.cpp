// SPDX-License-Identifier: Apache-2.0
#include "serve/work_parts.h"

namespace hydramix::serve {

std::deque<Work> parts_of(Work work, int64_t most_tokens) {
  std::deque<Work> parts;
  int64_t tokens = 0;
  const auto part_with = [&](int64_t more) -> Work& {
    tokens += more;
    if (parts.empty() || tokens > most_tokens) {
      auto& part = parts.emplace_back();
      part.model = work.model;
      part.kind = work.kind;
      part.top = work.top;
      part.layer = work.layer;
      part.head = work.head;
      tokens = more;
    }
    return parts.back();
  };
  for (auto& text : work.texts) part_with(std::ssize(text.ids)).texts.push_back(std::move(text));
  for (auto& image : work.images)
    part_with(work.model->image_tokens).images.push_back(std::move(image));
  return parts;
}

}  // namespace hydramix::serve
