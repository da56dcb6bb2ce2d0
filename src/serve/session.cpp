// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <utility>

#include "serve/access_log.h"
#include "serve/client_state.h"
#include "serve/durations.h"
#include "serve/http_error.h"

namespace hydramix::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr uint32_t kHeaderBytes = 16 << 10;
// The longest body of a route that does not compute. A larger body counts against the bytes of all
// large bodies that are arriving. No body takes a place before it is complete, so that slow clients
// do not take places.
constexpr uint64_t kSmallBody = 64 << 10;
constexpr double kDrainSeconds = 1;   // for a request that is on its way when the server stops
constexpr double kLingerSeconds = 2;  // for a client that still sends a refused body
constexpr std::size_t kLingerBytes = 8 << 20;
// The parser keeps a chunk's extension and the trailer in the buffer until they are complete.
constexpr std::size_t kBufferBytes = kHeaderBytes + (64 << 10);
constexpr int kClientLeft = 499;  // for the log and the metrics: no answer, or not all of it

std::string as_string(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Whether the error is the parser's, not the socket's.
bool is_of_http(const boost::system::error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, Service& service, bool log)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), service_(service), log_(log) {
  Error ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto remote = socket_.remote_endpoint(ignored);
  client_ = remote.address().to_string();
  service_.metrics().count_connection(1);
}

Session::~Session() { service_.metrics().count_connection(-1); }

void Session::start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->wait_for_request(); });
}

void Session::drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->waiting_) self->start_timer(kDrainSeconds, /*closes=*/true);
  });
}

void Session::start_timer(double seconds, bool closes) {
  const int64_t number = ++timer_number_;
  timed_out_ = false;
  timer_.expires_after(duration_of(seconds));
  timer_.async_wait([self = shared_from_this(), number, closes](const Error& error) {
    if (error || number != self->timer_number_) return;
    if (closes) return self->close();
    self->timed_out_ = true;
    Error ignored;
    self->socket_.cancel(ignored);
  });
}

void Session::close() {
  ++timer_number_;
  timer_.cancel();
  Error ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// An idle connection has neither buffer nor parser.
void Session::wait_for_request() {
  request_ = {};
  match_ = {};
  place_.reset();
  accepted_.reset();
  running_.reset();
  parser_.reset();
  held_.reset();
  if (buffer_.size() > 0) return read_header();
  buffer_ = {};
  waiting_ = true;
  start_timer(service_.draining() ? kDrainSeconds : service_.limits().idle_seconds,
              /*closes=*/true);
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const Error& error) {
                       self->waiting_ = false;
                       if (error) return self->close();
                       // The report may be stale: of bytes that have been read since.
                       if (client_state(self->socket_.native_handle()) == ClientState::kQuiet)
                         return self->wait_for_request();
                       self->read_header();
                     });
}

void Session::read_header() {
  buffer_.max_size(kBufferBytes);
  parser_.emplace();
  parser_->header_limit(kHeaderBytes);
  body_limit_ = static_cast<uint64_t>(service_.limits().max_body);
  parser_->body_limit(body_limit_);
  begin_ = std::chrono::steady_clock::now();
  start_timer(service_.limits().header_seconds, /*closes=*/false);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Error& error, std::size_t) { self->on_header(error); });
}

void Session::on_header(const Error& error) {
  // The client has left, between requests or within one.
  if (error && !timed_out_ &&
      (!is_of_http(error) || error == http::error::end_of_stream ||
       error == http::error::partial_message))
    return close();
  const auto& message = parser_->get();
  request_.method = as_string(message.method_string());
  request_.id = request_id(as_string(message["X-Request-Id"]));
  request_.path = as_string(message.target());  // for the log, where it is not a target
  keep_alive_ = false;
  try {
    read_target();
  } catch (const HttpError& refused) {
    return error ? refuse_read(error, /*in_body=*/false) : refuse(refused);
  }
  if (error) return refuse_read(error, /*in_body=*/false);
  try {
    check_header();
  } catch (const HttpError& refused) {
    return refuse(refused);
  }
  read_body();
}

// The path, also of a header that is refused: errors have the shape, the line of the log and the
// count of their route.
void Session::read_target() {
  const auto& message = parser_->get();
  auto target = parsed_target(request_.path);
  request_.path = std::move(target.path);
  request_.query = std::move(target.query);
  // A host in the target counts instead of Host (RFC 9112, 3.2.2).
  request_.host = target.authority.empty() ? as_string(message[http::field::host])
                                           : std::move(target.authority);
  match_ = service_.find_route(request_);
}

// Fills the rest of the request from the header and checks it; throws an HttpError.
void Session::check_header() {
  const auto& message = parser_->get();
  request_.origin = as_string(message[http::field::origin]);
  request_.requested_headers = as_string(message[http::field::access_control_request_headers]);
  request_.authorization = as_string(message[http::field::authorization]);
  request_.if_none_match = as_string(message[http::field::if_none_match]);
  keep_alive_ = message.keep_alive();
  // A proxy in front may read such a message in another way, and see other requests than we do.
  const bool encoded = message.count(http::field::transfer_encoding) > 0;
  if (message.version() >= 11 && message.count(http::field::host) != 1)
    throw bad_request("a request of HTTP/1.1 has one Host.");
  if (encoded && (!message.chunked() || message.version() < 11 ||
                  message.count(http::field::transfer_encoding) > 1 ||
                  message.count(http::field::content_length) > 0))
    throw bad_request(
        "the length of the body is ambiguous: send Transfer-Encoding: chunked or one "
        "Content-Length.");
  if (message.count(http::field::content_length) > 1)
    throw bad_request("the header has two Content-Length.");
  if (encoded && !boost::beast::iequals(message[http::field::transfer_encoding], "chunked"))
    throw HttpError(501, "not_implemented",
                    "Transfer-Encoding has more than chunked. Send the body uncompressed.");
  const auto coding = message[http::field::content_encoding];
  if (!coding.empty() && !boost::beast::iequals(coding, "identity"))
    throw HttpError(415, "encoding",
                    "the body has a Content-Encoding. Send it uncompressed, without that header.");
  std::string allowed;
  try {
    match_ = service_.admit(request_, allowed);
  } catch (const HttpError& error) {
    answer_ = service_.error_answer(error, request_.path);
    if (!allowed.empty()) answer_.headers.emplace_back("Allow", allowed);
    throw;
  }
  request_.parameter = match_.parameter;
  if (match_.route->prepare == nullptr) body_limit_ = std::min(body_limit_, kSmallBody);
  const auto length = parser_->content_length();
  if (length && *length > body_limit_) throw too_large();
  parser_->body_limit(body_limit_);
}

HttpError Session::too_large() const {
  const bool of_all = std::cmp_equal(body_limit_, service_.limits().max_body);
  return {413, "too_large",
          concat("the body is larger than ", body_limit_, " bytes",
                 of_all ? " (--max-body)." : ", the most that this route reads.")};
}

void Session::read_body() {
  if (parser_->is_done()) return answer_request();
  start_timer(service_.limits().body_seconds, /*closes=*/false);
  parser_->eager(true);  // reads as much of the body as there is
  // Clients of HTTP/1.0 do not know this answer.
  const bool expects = parser_->get().version() >= 11 &&
                       http::token_list(parser_->get()[http::field::expect]).exists("100-continue");
  if (!expects) return read_part();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](const Error& error, std::size_t) {
                      if (!error) return self->read_part();
                      if (!self->timed_out_) return self->close();
                      self->refuse_read(error, /*in_body=*/true);
                    });
}

void Session::read_part() {
  http::async_read_some(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Error& error, std::size_t) { self->on_body(error); });
}

void Session::on_body(const Error& error) {
  if (error) {
    if (!timed_out_ && (!is_of_http(error) || error == http::error::partial_message))
      return close();
    return refuse_read(error, /*in_body=*/true);
  }
  if (timed_out_ && !parser_->is_done())
    return refuse_read(error, /*in_body=*/true);  // between two parts
  try {
    hold_body();
  } catch (const HttpError& full) {
    return refuse(full);
  }
  if (parser_->is_done()) return answer_request();
  read_part();
}

// Counts the memory of a large body; throws an HttpError where all such bodies have too much.
void Session::hold_body() {
  const auto bytes = parser_->get().body().capacity();
  if (bytes <= kSmallBody) return;
  if (!held_) held_ = service_.no_body();
  service_.hold_body(*held_, static_cast<int64_t>(bytes));
}

void Session::answer_request() {
  ++timer_number_;
  timer_.cancel();
  accepted_ = service_.count_accepted();
  auto request = request_;
  request.body = std::move(parser_->get().body());
  request.held = std::move(held_);
  try {
    place_ = service_.take_place(*match_.route);
  } catch (const HttpError& error) {
    return write(service_.error_answer(error, request_.path));
  }
  left_ = false;
  running_ = service_.handle(
      *match_.route, std::move(request), [self = shared_from_this()](HttpAnswer answer) {
        asio::post(self->socket_.get_executor(), [self, answer = std::move(answer)]() mutable {
          self->on_answer(std::move(answer));
        });
      });
  if (match_.route->prepare == nullptr) return;
  if (ended_)
    watch_for_reset();
  else
    watch_client();
}

// Readable while no request is expected: the client has sent its next request, has ended its
// sending or has left.
void Session::watch_client() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this(), running = running_](const Error& error) {
                       // Ignore it if another request runs by now: the answer was sent in the
                       // meantime.
                       if (error || self->running_ != running) return;
                       switch (client_state(self->socket_.native_handle())) {
                         case ClientState::kQuiet:
                           return self->watch_client();
                         case ClientState::kSends:
                           return self->watch_for_reset();
                         case ClientState::kHalfClosed:
                           self->ended_ = true;
                           return self->ask_whether_it_listens();
                         case ClientState::kGone:
                           return self->on_client_left();
                       }
                     });
}

void Session::ask_whether_it_listens() {
  // Clients of HTTP/1.0 do not know interim answers.
  const auto probe =
      parser_->get().version() >= 11 ? probe_client(socket_.native_handle()) : Probe::kNotSent;
  if (probe == Probe::kBroken) return on_client_left();
  watch_for_reset();
}

void Session::watch_for_reset() {
  socket_.async_wait(asio::ip::tcp::socket::wait_error,
                     [self = shared_from_this(), running = running_](const Error& error) {
                       if (error || self->running_ != running) return;
                       const auto event = client_event(self->socket_.native_handle());
                       if (event == ClientEvent::kGone) return self->on_client_left();
                       if (event == ClientEvent::kNone) self->watch_for_reset();
                     });
}

// The request is not computed if it still waits.
void Session::on_client_left() {
  left_ = true;
  accepted_.reset();  // its client has left
  service_.metrics().count_abandoned();
  running_->abandon();
}

void Session::on_answer(HttpAnswer answer) {
  running_.reset();
  if (left_) {
    answer_ = std::move(answer);
    answer_.status = kClientLeft;
    body_size_ = 0;
    end_request();
    return close();
  }
  Error ignored;
  socket_.cancel(ignored);                                 // watch_client()
  if (ended_ && buffer_.size() == 0) keep_alive_ = false;  // that was its last request
  write(std::move(answer));
}

void Session::refuse(const HttpError& error) {
  // Frees what has arrived of the body.
  std::string().swap(parser_->get().body());
  held_.reset();
  // The rest of the request is not read, so the connection cannot be used any more.
  keep_alive_ = keep_alive_ && parser_->is_done();
  auto answer =
      answer_.body.empty() ? service_.error_answer(error, request_.path) : std::move(answer_);
  answer_ = {};
  write(std::move(answer));
}

void Session::refuse_read(const Error& error, bool in_body) {
  keep_alive_ = false;
  const auto& limits = service_.limits();
  if (timed_out_)
    refuse({408, "timeout",
            concat("the request's ", in_body ? "body" : "header", " did not arrive within ",
                   in_body ? limits.body_seconds : limits.header_seconds, " seconds.")});
  else if (error == http::error::body_limit)
    refuse(too_large());
  else if (error == http::error::buffer_overflow && in_body)
    refuse({431, "too_large",
            concat("the extension of a chunk or the trailer is larger than ", kBufferBytes,
                   " bytes.")});
  else if (error == http::error::header_limit || error == http::error::buffer_overflow)
    refuse({431, "too_large", concat("the header is larger than ", kHeaderBytes, " bytes.")});
  else
    refuse(bad_request("the request is not HTTP/1.1: ", error.message(), "."));
}

void Session::write(HttpAnswer answer) {
  if (service_.draining()) keep_alive_ = false;
  service_.complete(request_, answer);
  const bool head = request_.method == "HEAD";
  response_ = {};
  response_.version(11);
  response_.result(static_cast<unsigned>(answer.status));
  response_.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.headers) response_.set(name, value);
  response_.keep_alive(keep_alive_);
  body_size_ = answer.body.size();
  if (answer.status == 204 || answer.status == 304) {
    // These have no body and no Content-Length (RFC 9110, 8.6).
  } else if (head) {
    response_.content_length(body_size_);
  } else {
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
  }
  answer_ = std::move(answer);
  answer_.body.clear();
  start_timer(service_.limits().write_seconds, /*closes=*/true);
  http::async_write(socket_, response_,
                    [self = shared_from_this()](const Error& error, std::size_t bytes) {
                      self->on_written(error, bytes);
                    });
}

void Session::on_written(const Error& error, std::size_t bytes) {
  if (error) {
    answer_.status = kClientLeft;
    body_size_ = std::min(body_size_, bytes);
  }
  end_request();
  if (error) return close();
  if (keep_alive_) return wait_for_request();
  Error ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  linger();
}

// Logs and counts it, and frees its place and its answer.
void Session::end_request() {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const bool computed = match_.route != nullptr && match_.route->prepare != nullptr;
  if (log_) write_access_line({request_, answer_, client_, body_size_, seconds});
  service_.metrics().count_request(match_.route == nullptr ? "other" : match_.route->pattern,
                                   answer_.status, computed, seconds);
  answer_ = {};
  response_ = {};
  place_.reset();
  accepted_.reset();
}

// A socket that is closed with unread bytes resets the connection, and the client might lose the
// answer. So the rest is read, up to a limit.
void Session::linger() {
  if (linger_bytes_ == 0) start_timer(kLingerSeconds, /*closes=*/true);
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(16 << 10),
                          [self = shared_from_this()](const Error& error, std::size_t bytes) {
                            self->linger_bytes_ += bytes;
                            if (error || self->linger_bytes_ > kLingerBytes) return self->close();
                            self->linger();
                          });
}

}  // namespace hydramix::serve
