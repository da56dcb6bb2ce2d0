// SPDX-License-Identifier: Apache-2.0
// A server behind real sockets, with a model that computes nothing and waits where a test holds it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_model.h"
#include "raw_client.h"
#include "serve/server.h"

namespace hydramix::test {

class RunningServer : public ::testing::Test {
 protected:
  using RawClient = test::RawClient;
  using Reply = test::Reply;
  static inline const std::string kEmbed = R"({"inputs": "w1", "normalize": false})";
  static inline const std::string kPost = "POST /embed HTTP/1.1\r\nHost: x\r\n";
  static std::string sized(const std::string& body) {
    return kPost + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  RunningServer() {
    options.port = 0;
    options.access_log = false;
  }
  void start() {
    models =
        std::make_unique<serve::ModelTable>(std::vector<serve::ModelPlace>{{"fake", "folder"}},
                                            [this](const serve::ModelPlace&) { return open(); });
    server = std::make_unique<serve::Server>(options, *models, [this](auto works) {
      computed += static_cast<int>(works.size());
      gate.wait();
      if (failing) throw Error("the GPU is gone");
      return fake_compute(works);
    });
    server->start();
    server->load();
    port = server->port();
  }
  std::shared_ptr<serve::ModelFacts> open() {
    if (opened++ > 0) reload_gate.wait();
    if (broken) throw Error("folder: is damaged.");
    return fake_model();
  }
  void hold() { gate = held.get_future().share(); }
  void hold_reloads() { reload_gate = held_reloads.get_future().share(); }
  void TearDown() override {
    if (!server) return;
    server->drain();
    server->wait();
  }
  // Waits until the server has taken as many requests to its model.
  void wait_for_computed(int count) {
    for (int i = 0; i < 2000 && computed < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_GE(computed, count);
  }

  // Waits until /metrics has a line.
  void wait_for_metric(const std::string& line) {
    RawClient client(port);
    for (int i = 0; i < 1000; ++i) {
      if (client.get("/metrics").body.find(line + "\n") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "no line: " << line;
  }

  // A client has its answer a moment before the place is free.
  int status_when_there_is_a_place(RawClient& client) {
    int status = 429;
    for (int i = 0; i < 1000 && status == 429; ++i) {
      status = client.post("/embed", kEmbed).status;
      if (status == 429) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return status;
  }

  serve::ServerOptions options;
  std::atomic<int> computed = 0;
  std::atomic<bool> broken = false, failing = false;
  std::atomic<int> opened = 0;
  std::promise<void> held, held_reloads, open_gate;
  std::shared_future<void> gate = [this] {
    open_gate.set_value();
    return open_gate.get_future().share();
  }();
  std::shared_future<void> reload_gate = gate;
  int port = 0;
  std::unique_ptr<serve::ModelTable> models;
  std::unique_ptr<serve::Server> server;
};

}  // namespace hydramix::test
