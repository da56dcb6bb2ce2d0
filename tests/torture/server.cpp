// SPDX-License-Identifier: Apache-2.0
#include "torture/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace torture {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void lost() { throw std::runtime_error("the server of the command has died"); }

// False when `seconds` passed without a reply.
bool read_reply(int descriptor, int& reply, double seconds) {
  pollfd ready{descriptor, POLLIN, 0};
  while (true) {
    const int found = poll(&ready, 1, seconds < 0 ? -1 : static_cast<int>(seconds * 1000) + 1);
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) return false;
    if (read(descriptor, &reply, sizeof reply) != sizeof reply) lost();
    return true;
  }
}

}  // namespace

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Server::Server(const std::string& command, const std::string& preload) {
  int to[2], from[2];
  // Close-on-exec, so that servers of other threads do not hold the pipes open.
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) lost();
  process_ = fork();
  if (process_ == 0) {
    fcntl(to[0], F_SETFD, 0);
    fcntl(from[1], F_SETFD, 0);
    const std::string pipes = std::to_string(to[0]) + ":" + std::to_string(from[1]);
    setenv("HYDRAMIX_SERVER", pipes.c_str(), 1);
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execl(command.c_str(), command.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  requests_ = to[1];
  replies_ = from[0];
}

Server::~Server() {
  close(requests_);
  close(replies_);
  waitpid(process_, nullptr, 0);
}

Ended Server::run(const Request& request) {
  const auto out = request.folder / ".stdout", err = request.folder / ".stderr";
  std::string text;
  const auto add = [&](const std::string& part) { text.append(part).push_back('\0'); };
  for (const std::string& part : {request.folder.string(), std::string("/dev/null"), out.string(),
                                  err.string(), std::to_string(request.memory)})
    add(part);
  for (const auto& variable : request.environment) add(variable);
  add("");
  for (const auto& argument : request.arguments) add(argument);
  const std::size_t size = text.size();
  const std::string message = std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  for (std::size_t done = 0; done < message.size();) {
    const ssize_t count = write(requests_, message.data() + done, message.size() - done);
    if (count < 0 && errno != EINTR) lost();
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  int child = 0, status = 0;
  read_reply(replies_, child, -1);
  const auto start = Clock::now();
  Ended ended;
  const bool to_kill = request.kill_after >= 0;
  if (!read_reply(replies_, status, to_kill ? request.kill_after : request.timeout)) {
    kill(child, SIGKILL);
    ended.timed_out = !to_kill;
    read_reply(replies_, status, -1);
  }
  ended.seconds = seconds_since(start);
  if (WIFSIGNALED(status))
    ended.signal = WTERMSIG(status);
  else
    ended.code = WEXITSTATUS(status);
  ended.out = contents_of(out);
  ended.err = contents_of(err);
  return ended;
}

}  // namespace torture
