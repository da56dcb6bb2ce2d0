// SPDX-License-Identifier: Apache-2.0
// The communicator of a single rank, and the choice between it and that of several.
#include "dist/communicator.h"

#include "dist/c10d_communicator.h"
#include "dist/launch_environment.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// One rank already has every sum and every broadcast.
class SingleRank : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  int64_t local_rank() const override { return 0; }
  bool alone() const override { return true; }
  void sum(torch::Tensor&) override {}
  void begin_sum(torch::Tensor) override {}
  void finish() override {}
  void broadcast(torch::Tensor&, int64_t root) override {
    HYDRAMIX_CHECK(root == 0, "broadcast: root is ", root, ", but there is rank 0 only");
  }
  void barrier(const std::string&) override {}
  void agree(const std::string&, const std::string&) override {}
  void leave() override {}
  void abort(const std::string&) noexcept override {}
};

}  // namespace

Communicator::~Communicator() = default;

std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options,
                                                torch::Device device) {
  HYDRAMIX_CHECK_USAGE(options.timeout_s > 0, "communicator: the timeout is ", options.timeout_s,
                       " s; it must be positive");
  const auto launched = launch_environment();
  if (!launched.group) return std::make_unique<SingleRank>();
  return make_c10d_communicator(launched, options, device);
}

}  // namespace hydramix
