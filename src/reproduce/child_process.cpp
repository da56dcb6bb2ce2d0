// SPDX-License-Identifier: Apache-2.0
#include "reproduce/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hydramix/error.h"

extern char** environ;

namespace hydramix {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

class ChildProcess : public Job {
 public:
  explicit ChildProcess(pid_t id) : id_(id) {}
  // A child that still runs is left to its SIGTERM: the destructor of a failing command must not
  // wait for a training step.
  ~ChildProcess() override {
    if (id_ > 0) kill(id_, SIGTERM);
  }

  std::optional<bool> ended() override {
    int status = 0;
    const pid_t got = waitpid(id_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
    id_ = -1;
    return got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  void stop() override {
    if (id_ > 0) kill(id_, SIGTERM);
  }

 private:
  pid_t id_;
};

}  // namespace

std::unique_ptr<Job> start_child(const ChildCommand& command) {
  // Everything is prepared before the fork: after it, a process with threads may only call
  // functions that are safe in a signal handler.
  std::vector<std::string> words{command.program.string()}, variables;
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const auto name = variable.substr(0, variable.find('='));
    bool replaced = false;
    for (const auto& [key, value] : command.environment) replaced = replaced || key == name;
    if (!replaced) variables.push_back(variable);
  }
  for (const auto& [key, value] : command.environment) variables.push_back(key + "=" + value);
  const auto arguments = pointers(words), environment = pointers(variables);
  const int log = open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  HYDRAMIX_CHECK(log >= 0, command.log.string(), ": cannot be written (", std::strerror(errno),
                 "). Choose another --out.");
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // it died before prctl
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  const int problem = errno;
  close(log);
  if (nothing >= 0) close(nothing);
  HYDRAMIX_CHECK(child > 0, command.program.string(), ": cannot be started (",
                 std::strerror(problem), ").");
  return std::make_unique<ChildProcess>(child);
}

}  // namespace hydramix
