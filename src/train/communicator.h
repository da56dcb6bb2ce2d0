// SPDX-License-Identifier: Apache-2.0
// The ranks of a data parallel run and what they exchange: sums, broadcasts, agreements.
//
// Every rank makes the same calls in the same order. A rank that dies, hangs or fails ends the
// others within `timeout_s` and a few seconds, with an Error that names it; after that every call
// throws the same Error. The exchange is c10d's: Gloo between CPUs, NCCL between GPUs, and a TCP
// store for the rendezvous, the names and the signs of life.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "hydramix/torch_compat.h"

namespace hydramix {

struct CommunicatorOptions {
  double timeout_s = 120;  // the longest wait for another rank
};

class Communicator {
 public:
  // Without leave() before it the run counts as failed, and the others end.
  virtual ~Communicator();

  virtual int64_t rank() const = 0;        // 0 .. size - 1
  virtual int64_t size() const = 0;        // ranks on all machines
  virtual int64_t local_rank() const = 0;  // among the ranks of this machine: the GPU's index

  // In place, over all ranks; waits. t is contiguous and lies on the communicator's device.
  virtual void sum(torch::Tensor& t) = 0;
  // The same in the background: t stays alive, and must not be touched, until finish(). May be
  // called from any thread, one call at a time.
  virtual void begin_sum(torch::Tensor t) = 0;
  virtual void finish() = 0;  // waits for all that was begun

  virtual void broadcast(torch::Tensor& t, int64_t root = 0) = 0;  // in place; waits
  // Waits for all ranks. `what` is the place in the run that messages about lost ranks name.
  virtual void barrier(const std::string& what) = 0;
  // Error on every rank, naming those that differ, unless all pass the same value.
  virtual void agree(const std::string& what, const std::string& value) = 0;

  // The orderly end, called by every rank: rank 0 waits for the others, whose store it hosts.
  virtual void leave() = 0;
  // Tells the others why this rank fails, so that they end at once, with its name and reason.
  virtual void abort(const std::string& why) noexcept = 0;
};

// Alone when the environment has no sign of a launcher (launch_environment.h) or there is one rank
// only. `device`: where the tensors lie; a CUDA device needs its index, local_rank() as a rule.
std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options,
                                                torch::Device device);

// work(communicator), with an orderly end: a rank that fails tells the others why.
template <class Work>
auto among_ranks(const CommunicatorOptions& options, torch::Device device, const Work& work) {
  const auto communicator = make_communicator(options, device);
  try {
    auto result = work(*communicator);
    communicator->leave();
    return result;
  } catch (const std::exception& error) {
    communicator->abort(error.what());
    throw;
  }
}

}  // namespace hydramix
