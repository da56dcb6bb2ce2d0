// SPDX-License-Identifier: Apache-2.0
// The server: listens, loads the models, answers until a signal stops it, then drains.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/service.h"
#include "serve/session.h"

namespace hydramix::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;  // 0: any that is free
  int64_t http_threads = 2;
  bool access_log = true;
  ServiceOptions service = {};
};

class Server {
 public:
  // Listens at once, and answers after start(). Throws an Error if the address is taken.
  Server(const ServerOptions& options, ModelTable& models, Batcher::Compute compute);
  ~Server();

  int port() const;
  // From now on SIGTERM and SIGINT drain, a second one ends the process, and SIGHUP reloads.
  void handle_signals();
  void start();
  // Loads the models, after which /ready is 200.
  void load();
  // Stops accepting and answers what was accepted. From any thread.
  void drain();
  // Waits until drain() has ended. Returns false if accepted requests were not answered in time.
  bool wait();

 private:
  void accept();
  void on_accept(const boost::system::error_code& error, boost::asio::ip::tcp::socket socket);
  void add_session(boost::asio::ip::tcp::socket socket);
  void wait_for_signal();
  void begin_drain();
  void wait_for_sessions();
  void poll_drain();
  int64_t open_sessions();

  const ServerOptions options_;
  Service service_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer accept_timer_, drain_timer_;
  std::chrono::steady_clock::time_point drain_end_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::vector<std::thread> threads_;
  bool drained_ = true;
};

}  // namespace hydramix::serve
