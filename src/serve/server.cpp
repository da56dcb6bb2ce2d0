// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "serve/durations.h"
#include "serve/file_limit.h"
#include "serve/handler_loop.h"
#include "serve/patience.h"

namespace hydramix::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kDrainPoll = std::chrono::milliseconds(10);
constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // when there is no file descriptor
constexpr auto kAcceptLog = std::chrono::seconds(10);         // between two lines about that
// After --drain-seconds, the time for work without a client: a model that is being opened, a batch
// whose clients have left.
constexpr auto kEndPause = std::chrono::milliseconds(500);

tcp::endpoint endpoint_of(const ServerOptions& options) {
  boost::system::error_code error;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  HYDRAMIX_CHECK_USAGE(!error, "serve: --host '", options.host,
                       "' is not an address; expected for example 127.0.0.1, 0.0.0.0 or ::.");
  return {address, static_cast<uint16_t>(options.port)};
}

// Without destructors, which wait for the batch that is being computed.
[[noreturn]] void end_unanswered(double seconds) {
  std::fprintf(stderr,
               "error: some accepted requests were not answered within %g s. Give more "
               "--drain-seconds.\n",
               seconds);
  std::_Exit(1);
}

}  // namespace

Server::Server(const ServerOptions& options, ModelTable& models, Batcher::Compute compute)
    : options_(options),
      service_(options.service, models, std::move(compute)),
      acceptor_(asio::make_strand(io_)),
      accept_timer_(acceptor_.get_executor()),
      drain_timer_(acceptor_.get_executor()) {
  raise_file_limit(options_.service.limits.max_connections);
  const auto endpoint = endpoint_of(options_);
  boost::system::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  HYDRAMIX_CHECK(!error, "serve: cannot listen on ", options_.host, ":", options_.port, ": ",
                 error.message(), ". Choose another --port or --host.");
  port_ = acceptor_.local_endpoint().port();  // known after the acceptor is closed
}

Server::~Server() {
  io_.stop();
  for (auto& thread : threads_) thread.join();
  service_.stop();  // then only io_ holds sessions, and it ends before the service that they use
  signal_io_.stop();
  if (signal_thread_.joinable()) signal_thread_.join();
}

void Server::start() {
  accept();
  for (int64_t i = 0; i < options_.http_threads; ++i)
    threads_.emplace_back([this] { run_handlers(io_); });
}

void Server::load() {
  if (service_.models().load([this] { return service_.draining(); })) service_.set_ready();
}

void Server::run(const std::function<void()>& loaded) {
  handle_signals();
  start();
  load();
  if (!service_.draining()) loaded();
  if (!wait()) end_unanswered(options_.service.limits.drain_seconds);
}

void Server::accept() {
  start_with_patience([this] {
    acceptor_.async_accept(asio::make_strand(io_),
                           [this](const boost::system::error_code& error, tcp::socket socket) {
                             on_accept(error, std::move(socket));
                           });
  });
}

void Server::on_accept(boost::system::error_code error, tcp::socket socket) {
  // Even if the server has begun to drain meanwhile.
  if (!error && !add_session(std::move(socket)))
    error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
  if (!acceptor_.is_open()) return;
  if (!error) return accept();
  say_not_accepted(error);
  accept_timer_.expires_after(kAcceptPause);
  start_with_patience([this] {
    accept_timer_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled && acceptor_.is_open()) accept();
    });
  });
}

void Server::say_not_accepted(const boost::system::error_code& error) {
  service_.metrics().count_failed_accept();
  const auto now = std::chrono::steady_clock::now();
  if (now < next_accept_log_) return;
  next_accept_log_ = now + kAcceptLog;
  const bool files = error == boost::system::errc::too_many_files_open;
  std::fprintf(stderr, "connections cannot be accepted: %s.%s\n", error.message().c_str(),
               files ? " Raise the limit of open files (ulimit -n)." : "");
}

// False without memory for it.
bool Server::add_session(tcp::socket socket) try {
  if (service_.metrics().connections() >= options_.service.limits.max_connections) {
    static constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
        "Connection: close\r\n\r\n";
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kFull), ignored);
    service_.metrics().count_refused_connection();
    return true;
  }
  const auto session = std::make_shared<Session>(std::move(socket), service_, options_.access_log);
  {
    const std::lock_guard lock(mutex_);
    // Forgets closed ones now and then, at a cost in proportion to the connections.
    if (sessions_.size() >= 64 && sessions_.size() == sessions_.capacity())
      std::erase_if(sessions_, [](const auto& other) { return other.expired(); });
    sessions_.push_back(session);
  }
  session->start();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Server::handle_signals() {
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.add(SIGHUP);
  wait_for_signal();
  signal_thread_ = std::thread([this] { run_handlers(signal_io_); });
}

void Server::wait_for_signal() {
  start_with_patience([this] {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      wait_for_signal();
      on_signal(signal);
    });
  });
}

void Server::on_signal(int signal) {
  if (signal == SIGHUP) return service_.reload_later();
  if (service_.draining()) std::_Exit(128 + signal);
  std::fprintf(stderr, "stopping: answering what was accepted; a second signal ends at once\n");
  drain_by_signal();
}

void Server::drain_by_signal() {
  service_.drain();
  drain();
  end_timer_.expires_after(duration_of(options_.service.limits.drain_seconds) + kEndPause);
  end_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (service_.accepted() > 0) end_unanswered(options_.service.limits.drain_seconds);
    std::_Exit(0);
  });
}

void Server::drain() {
  asio::post(acceptor_.get_executor(), [this] { begin_drain(); });
}

void Server::begin_drain() {
  if (!acceptor_.is_open()) return;
  service_.drain();
  // Connections that the kernel has accepted for us would be reset.
  boost::system::error_code error;
  while (true) {
    tcp::socket socket(asio::make_strand(io_));
    acceptor_.accept(socket, error);
    if (error) break;
    add_session(std::move(socket));
  }
  acceptor_.close(error);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& each : sessions_)
      if (const auto session = each.lock()) session->drain();
  }
  drain_end_ =
      std::chrono::steady_clock::now() + duration_of(options_.service.limits.drain_seconds);
  wait_for_sessions();
}

int64_t Server::open_sessions() {
  const std::lock_guard lock(mutex_);
  return std::count_if(sessions_.begin(), sessions_.end(),
                       [](const auto& each) { return !each.expired(); });
}

// The first look comes after the handler of a connection that was accepted just now.
void Server::wait_for_sessions() {
  drain_timer_.expires_after(kDrainPoll);
  drain_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) poll_drain();
  });
}

void Server::poll_drain() {
  const bool empty = open_sessions() == 0;
  if (empty || std::chrono::steady_clock::now() >= drain_end_) {
    drained_ = service_.accepted() == 0;  // a request that is still arriving was not accepted
    io_.stop();
    return;
  }
  wait_for_sessions();
}

bool Server::wait() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  return drained_;
}

}  // namespace hydramix::serve
