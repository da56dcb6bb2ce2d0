// SPDX-License-Identifier: Apache-2.0
// An interface to c10d's process groups, Gloo between CPUs and NCCL between GPUs, with the two
// operations that we need. Each backend has its own file. Where the library is built without a
// backend, a file that throws takes its place and says which package was missing.
//
// LibTorch 1.13 derives its groups from c10d::ProcessGroup, LibTorch 2 from c10d::Backend. A
// template over the group itself works with both.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "hydramix/torch_compat.h"

namespace hydramix {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual WorkPointer sum(torch::Tensor& t) = 0;
  virtual WorkPointer broadcast(torch::Tensor& t, int64_t root) = 0;
};

template <class Group>
class GroupOf : public ProcessGroup {
 public:
  explicit GroupOf(c10::intrusive_ptr<Group> group) : group_(std::move(group)) {}

  WorkPointer sum(torch::Tensor& t) override {
    std::vector<at::Tensor> tensors{t};
    return group_->allreduce(tensors);
  }
  WorkPointer broadcast(torch::Tensor& t, int64_t root) override {
    std::vector<at::Tensor> tensors{t};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return group_->broadcast(tensors, options);
  }

 private:
  c10::intrusive_ptr<Group> group_;
};

struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  int64_t rank = 0, size = 1;
  std::chrono::milliseconds timeout{0};
  std::string master_address;  // listen at the address that routes to it
  bool one_machine = true;
};

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupOptions& options);
std::unique_ptr<ProcessGroup> make_nccl_group(const GroupOptions& options);

// Throws unless the library was built with the backend. Call it before ranks wait for each other.
void check_gloo_available();
void check_nccl_available();

}  // namespace hydramix
