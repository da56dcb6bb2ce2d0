// SPDX-License-Identifier: Apache-2.0
// Runs the command as child processes of a server that has loaded its libraries (preload.c).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace torture {

struct Request {
  std::filesystem::path folder;  // working folder; stdout and stderr go to files in it
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};  // "NAME=VALUE"
  double kill_after = -1;                     // seconds until SIGKILL; negative: never
  double timeout = 120;                       // seconds until SIGKILL, which is a failure
  long memory = 0;                            // bytes that the process may add; 0: any
};

struct Ended {
  int code = 0;    // exit code, where no signal ended it
  int signal = 0;  // that ended it
  bool timed_out = false;
  double seconds = 0;
  std::string out, err;
};

class Server {
 public:
  Server(const std::string& command, const std::string& preload);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Ended run(const Request& request);

 private:
  pid_t process_;
  int requests_, replies_;
};

std::string contents_of(const std::filesystem::path& path);

}  // namespace torture
