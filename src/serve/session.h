// SPDX-License-Identifier: Apache-2.0
// One connection: reads requests one after another, within the limits of time and size, and writes
// their answers in order. Pipelined requests wait in the buffer until their turn.
//
// All members run in the connection's strand. Time is limited by a timer of its own, which cancels
// the read and leaves the socket open for the answer 408.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "serve/growing_body.h"
#include "serve/held_bytes.h"
#include "serve/service.h"

namespace hydramix::serve {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // The socket's executor is a strand. `log`: write a line for every request.
  Session(boost::asio::ip::tcp::socket socket, Service& service, bool log);
  ~Session();
  void start();
  // From any thread: closes the connection after the present request, or after one that is on its
  // way.
  void drain();

 private:
  using Error = boost::system::error_code;

  void wait_for_request();
  void read_header();
  void on_header(const Error& error);
  void read_target();
  void check_header();
  HttpError too_large() const;
  void read_body();
  void read_part();
  void on_body(const Error& error);
  void hold_body();
  void answer_request();
  void watch_client();
  void ask_whether_it_listens();
  void watch_for_reset();
  void on_client_left();
  void on_answer(HttpAnswer answer);
  void refuse(const HttpError& error);
  void refuse_read(const Error& error, bool in_body);
  void write(HttpAnswer answer);
  void on_written(const Error& error, std::size_t bytes);
  void end_request();
  void linger();
  void close();
  void start_timer(double seconds, bool closes);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  Service& service_;
  const bool log_;
  std::string client_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<GrowingBody>> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  HttpRequest request_;
  HttpAnswer answer_;
  Router::Match match_;
  Service::Place place_;       // until the answer is sent, so that unread answers are bounded, too
  Service::Place accepted_;    // from the end of the body until the answer is sent
  std::size_t body_size_ = 0;  // of the answer
  std::shared_ptr<HeldBytes> held_;  // of a large body
  std::shared_ptr<Service::Running> running_;
  std::chrono::steady_clock::time_point begin_;
  std::size_t linger_bytes_ = 0;
  uint64_t body_limit_ = 0;
  int64_t timer_number_ = 0;  // so that a timer that has already expired cannot hit a later read
  bool timed_out_ = false, keep_alive_ = false, waiting_ = false;
  bool ended_ = false;  // the client has ended its sending
  bool left_ = false;   // the client has left the present request
};

}  // namespace hydramix::serve
