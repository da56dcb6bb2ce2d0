// SPDX-License-Identifier: Apache-2.0
#include "serve/load.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>

#include "hydramix/error.h"
#include "serve/durations.h"
#include "serve/file_limit.h"

namespace hydramix::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

http::request<http::string_body> request_of(const LoadOptions& server, const std::string& path,
                                            const std::string& body) {
  http::request<http::string_body> request{body.empty() ? http::verb::get : http::verb::post, path,
                                           11, body};
  request.set(http::field::host, concat(server.host, ":", server.port));
  request.set(http::field::content_type, "application/json");
  if (!server.api_key.empty()) request.set(http::field::authorization, "Bearer " + server.api_key);
  request.prepare_payload();
  return request;
}

tcp::resolver::results_type resolved(asio::io_context& io, const LoadOptions& server) {
  boost::system::error_code error;
  auto found = tcp::resolver(io).resolve(server.host, std::to_string(server.port), error);
  HYDRAMIX_CHECK(!error, "cannot find the host ", server.host, ": ", error.message(), ".");
  return found;
}

void check_connected(const boost::system::error_code& error, const LoadOptions& server) {
  HYDRAMIX_CHECK(!error, "cannot connect to ", server.host, ":", server.port, ": ", error.message(),
                 ". Start it with hydramix serve, or give --host and --port.");
}

// Shared by all connections of a run.
struct LoadRun {
  const LoadOptions& options;
  tcp::resolver::results_type endpoints;
  std::vector<http::request<http::string_body>> requests;
  Clock::time_point begin = {}, end = {};
  std::atomic<int64_t> next = 0;  // number of the next request
};

class LoadConnection : public std::enable_shared_from_this<LoadConnection> {
 public:
  LoadConnection(asio::io_context& io, LoadRun& run, LoadResult& result)
      : socket_(io), timer_(io), run_(run), result_(result) {}

  void connect() {
    boost::system::error_code error;
    asio::connect(socket_, run_.endpoints, error);
    check_connected(error, run_.options);
    socket_.set_option(tcp::no_delay(true), error);
  }

  void send_next() {
    due_ = Clock::now();
    if (due_ >= run_.end) return;
    number_ = run_.next++;
    if (run_.options.rate <= 0) return send();
    due_ = run_.begin + duration_of(static_cast<double>(number_) / run_.options.rate);
    if (due_ >= run_.end) return;
    timer_.expires_at(due_);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->send();
    });
  }

 private:
  void send() {
    const auto& request = run_.requests[static_cast<std::size_t>(number_) % run_.requests.size()];
    http::async_write(
        socket_, request,
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
          if (error) return self->lose();
          self->read();
        });
  }

  void read() {
    response_ = {};
    http::async_read(
        socket_, buffer_, response_,
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
          if (error) return self->lose();
          self->on_answer();
        });
  }

  void on_answer() {
    ++result_.statuses[static_cast<int>(response_.result_int())];
    if (response_.result_int() == 200)
      result_.seconds.push_back(std::chrono::duration<double>(Clock::now() - due_).count());
    if (response_.keep_alive() || Clock::now() >= run_.end) return send_next();
    // A proxy closes a connection after some requests.
    ++result_.reconnected;
    socket_.close();
    buffer_.clear();
    asio::async_connect(
        socket_, run_.endpoints,
        [self = shared_from_this()](const boost::system::error_code& error, const tcp::endpoint&) {
          if (error) return self->lose();
          boost::system::error_code ignored;
          self->socket_.set_option(tcp::no_delay(true), ignored);
          self->send_next();
        });
  }

  void lose() { ++result_.lost; }  // and this connection ends

  tcp::socket socket_;
  asio::steady_timer timer_;
  LoadRun& run_;
  LoadResult& result_;
  boost::beast::flat_buffer buffer_;
  http::response<http::string_body> response_;
  Clock::time_point due_;
  int64_t number_ = 0;
};

// The connections of one thread.
struct LoadShare {
  asio::io_context io{1};
  LoadResult result;
  std::vector<std::shared_ptr<LoadConnection>> connections;
};

int64_t thread_count(const LoadOptions& options) {
  if (options.threads > 0) return std::min(options.threads, options.connections);
  const int64_t half = static_cast<int64_t>(std::thread::hardware_concurrency()) / 2;
  return std::clamp<int64_t>(half, 1, std::min<int64_t>(8, options.connections));
}

}  // namespace

double LoadResult::percentile(double share) const {
  if (seconds.empty()) return 0;
  const auto place =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(seconds.size())));
  return seconds[std::clamp<std::size_t>(place, 1, seconds.size()) - 1];
}

LoadResult run_load(const LoadOptions& options) {
  raise_file_limit(options.connections);
  LoadRun run{.options = options, .endpoints = {}, .requests = {}};
  for (const auto& body : options.bodies)
    run.requests.push_back(request_of(options, options.path, body));
  auto shares = std::vector<LoadShare>(static_cast<std::size_t>(thread_count(options)));
  run.endpoints = resolved(shares[0].io, options);
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.connections); ++i) {
    auto& share = shares[i % shares.size()];
    share.connections.push_back(std::make_shared<LoadConnection>(share.io, run, share.result));
    share.connections.back()->connect();
  }
  run.begin = Clock::now();
  run.end = run.begin + duration_of(options.seconds);
  std::vector<std::future<void>> running;
  for (auto& share : shares)
    running.push_back(std::async(std::launch::async, [&share] {
      for (const auto& connection : share.connections) connection->send_next();
      share.io.run();
    }));
  for (auto& one : running) one.get();
  LoadResult total;
  total.elapsed = std::chrono::duration<double>(Clock::now() - run.begin).count();
  for (const auto& share : shares) {
    total.seconds.insert(total.seconds.end(), share.result.seconds.begin(),
                         share.result.seconds.end());
    for (const auto& [status, count] : share.result.statuses) total.statuses[status] += count;
    total.lost += share.result.lost;
    total.reconnected += share.result.reconnected;
  }
  std::sort(total.seconds.begin(), total.seconds.end());
  return total;
}

std::string ask(const LoadOptions& server, const std::string& path, const std::string& body) {
  asio::io_context io;
  tcp::socket socket(io);
  boost::system::error_code error;
  asio::connect(socket, resolved(io, server), error);
  check_connected(error, server);
  http::write(socket, request_of(server, path, body), error);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  if (!error) http::read(socket, buffer, response, error);
  HYDRAMIX_CHECK(!error, path, ": the server did not answer: ", error.message(), ".");
  HYDRAMIX_CHECK(response.result_int() == 200, path, ": the server answered ",
                 response.result_int(), ": ", response.body());
  return std::move(response.body());
}

}  // namespace hydramix::serve
