// SPDX-License-Identifier: Apache-2.0
// The commands that are tortured, on a few kilobytes of data, and what their results are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "torture/server.h"

namespace torture {

struct Workload {
  std::string name;
  std::vector<std::string> copies;     // fixtures that are copied to the working folder
  std::vector<std::string> arguments;  // paths are relative to the working folder; "@/" becomes it
  std::vector<std::string> results;    // files and folders that it writes
  bool prints = false;                 // its standard output is a result too
};

const std::vector<Workload>& workloads();

// Makes the fixtures with the command itself.
void make_fixtures(Server& server, const std::filesystem::path& folder);

// Empties the working folder and copies the fixtures of the workload to it.
void prepare(const Workload& workload, const std::filesystem::path& fixtures,
             const std::filesystem::path& folder);

Request request_of(const Workload& workload, const std::filesystem::path& folder);

// Contents by name, without what differs between equal runs: times and rates.
using Results = std::map<std::string, std::string>;
Results results_of(const Workload& workload, const std::filesystem::path& folder,
                   const Ended& ended);

}  // namespace torture
