// SPDX-License-Identifier: Apache-2.0
// The server: listens, loads the models, answers until a signal stops it, then drains.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
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

  int port() const { return port_; }
  void start();
  // Loads the models, after which /ready is 200. Draining ends it early.
  void load();
  // Stops accepting and answers what was accepted. From any thread.
  void drain();
  // Waits until drain() has ended. Returns false if accepted requests were not answered in time.
  bool wait();

  // Starts, loads and waits, for a process that only serves: SIGTERM and SIGINT drain, a second one
  // ends the process, and SIGHUP reloads. Calls `loaded` unless a signal came earlier. Does not
  // return where accepted requests were not answered in time, but ends the process with code 1.
  void run(const std::function<void()>& loaded);

 private:
  void handle_signals();
  void accept();
  void on_accept(boost::system::error_code error, boost::asio::ip::tcp::socket socket);
  void say_not_accepted(const boost::system::error_code& error);
  bool add_session(boost::asio::ip::tcp::socket socket);
  void wait_for_signal();
  void on_signal(int signal);
  void drain_by_signal();
  void begin_drain();
  void wait_for_sessions();
  void poll_drain();
  int64_t open_sessions();

  const ServerOptions options_;
  Service service_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer accept_timer_, drain_timer_;
  // Signals have a thread of their own that lives as long as the server, so that a second signal is
  // heard while the models load, and while the last batch is waited for.
  boost::asio::io_context signal_io_{1};
  boost::asio::signal_set signals_{signal_io_};
  boost::asio::steady_timer end_timer_{signal_io_};
  std::thread signal_thread_;
  int port_ = 0;
  std::chrono::steady_clock::time_point drain_end_, next_accept_log_ = {};
  std::mutex mutex_;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::vector<std::thread> threads_;
  bool drained_ = true;
};

}  // namespace hydramix::serve
