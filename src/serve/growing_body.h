// SPDX-License-Identifier: Apache-2.0
// The body of a request as a string that grows as bytes arrive. http::string_body reserves the
// whole Content-Length before the first byte, so that a header alone would take the memory of a
// body.
#pragma once

#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace hydramix::serve {

struct GrowingBody {
  using value_type = std::string;
  static constexpr std::size_t kFirstBytes = 64 << 10;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, std::string& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      length_ = length;
      error = {};
    }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const auto bytes = boost::beast::buffer_bytes(buffers);
      make_room(body_.size() + bytes);
      for (const auto part : boost::beast::buffers_range_ref(buffers))
        body_.append(static_cast<const char*>(part.data()), part.size());
      error = {};
      return bytes;
    }

    void finish(boost::system::error_code& error) { error = {}; }

   private:
    // Asks for twice what there was, or for the length that the header has announced if that is
    // less.
    void make_room(std::size_t needed) {
      if (needed <= body_.capacity()) return;
      auto room = std::max({needed, 2 * body_.capacity(), kFirstBytes});
      if (length_ && *length_ < room) room = std::max<std::size_t>(needed, *length_);
      body_.reserve(room);
    }

    std::string& body_;
    boost::optional<uint64_t> length_;
  };
};

}  // namespace hydramix::serve
