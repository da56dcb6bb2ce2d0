// SPDX-License-Identifier: Apache-2.0
// Communication between the ranks of a data parallel run: sums, broadcasts, barriers, agreement.
//
// Every rank makes the same calls in the same order. When a rank dies, hangs or fails, the others
// end within `timeout_s` and a few seconds, with an Error that names it. After that every call
// throws the same Error. c10d moves the data: Gloo between CPUs, NCCL between GPUs. A store
// (store.h) is for the rendezvous, the names and the heartbeats.
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
  // Without a leave() before it the run has failed, and the other ranks end.
  virtual ~Communicator();

  virtual int64_t rank() const = 0;        // 0 .. size - 1
  virtual int64_t size() const = 0;        // ranks on all machines
  virtual int64_t local_rank() const = 0;  // on this machine; the index of its GPU
  // No group was formed, and the calls below do nothing. A group can have a single rank.
  virtual bool alone() const { return false; }

  // Sums t over all ranks, in place, and waits. t is contiguous, on the communicator's device.
  virtual void sum(torch::Tensor& t) = 0;
  // Begins a sum in the background. t is kept alive and must not be used until finish(). Any thread
  // may call this, one call at a time.
  virtual void begin_sum(torch::Tensor t) = 0;
  virtual void finish() = 0;  // waits for all sums that were begun

  virtual void broadcast(torch::Tensor& t, int64_t root = 0) = 0;  // in place; waits
  // Waits for all ranks. `what` names this place in the run, for messages about lost ranks.
  virtual void barrier(const std::string& what) = 0;
  // Unless all ranks pass the same value, throws on every rank an Error that names those that
  // differ.
  virtual void agree(const std::string& what, const std::string& value) = 0;

  // The orderly end; every rank calls it. Rank 0 hosts the store, so it waits for the others.
  virtual void leave() = 0;
  // Tells the others why this rank fails. They end at once, with its name and the reason.
  virtual void abort(const std::string& why) noexcept = 0;
};

// A single rank without a group if the environment names no launcher (launch_environment.h) or a
// size of one.
// `device` holds the tensors; a CUDA device needs its index, usually local_rank().
std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options,
                                                torch::Device device);

// Runs work(communicator) and leaves in order. A rank that fails tells the others why.
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
