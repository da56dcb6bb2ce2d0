// SPDX-License-Identifier: Apache-2.0
// Operations are numbered. Each heartbeat carries the number and kind of the operation that a rank
// has reached. Neither Gloo nor NCCL can be interrupted, so a wait is a loop that polls the
// operation, the failure detector and the clock.
#include "dist/c10d_communicator.h"

#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fnv.h"
#include "base/spelling.h"
#include "dist/connection.h"
#include "dist/disagreement.h"
#include "dist/membership.h"
#include "dist/process_group.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Time between two polls. It starts short, so that fast operations are not delayed.
constexpr microseconds kFirstPoll(20), kLongestPoll(1000);

int64_t fingerprint(const std::string& text) { return static_cast<int64_t>(fnv1a(text)); }

class C10dCommunicator : public Communicator {
 public:
  C10dCommunicator(const LaunchEnvironment& launched, const CommunicatorOptions& options,
                   torch::Device device)
      : launched_(launched),
        timeout_(static_cast<int64_t>(options.timeout_s * 1000)),
        device_(device),
        membership_(launched, timeout_) {
    connect();
  }

  ~C10dCommunicator() override {
    if (left_) return;
    // Another exception is unwinding; its text is on this rank's output.
    membership_.detector().abort("it ended before the end of the run; see its output");
    abandon();
  }

  int64_t rank() const override { return launched_.rank; }
  int64_t size() const override { return launched_.size; }
  int64_t local_rank() const override { return launched_.local_rank; }

  void sum(torch::Tensor& t) override {
    auto work = start("sum", t, [&](ProcessGroup& group) { return group.sum(t); });
    wait(*work);
  }

  void begin_sum(torch::Tensor t) override {
    auto work = start("sum", t, [&](ProcessGroup& group) { return group.sum(t); });
    const std::lock_guard lock(mutex_);
    begun_.push_back({std::move(work), std::move(t)});
  }

  void finish() override {
    std::vector<Begun> begun;
    {
      const std::lock_guard lock(mutex_);
      begun.swap(begun_);
    }
    for (auto& one : begun) wait(*one.work);
  }

  void broadcast(torch::Tensor& t, int64_t root) override {
    HYDRAMIX_CHECK(root >= 0 && root < size(), "broadcast: root is ", root, "; ranks are 0 to ",
                   size() - 1);
    auto work = start(concat("broadcast from rank ", root), t,
                      [&](ProcessGroup& group) { return group.broadcast(t, root); });
    wait(*work);
  }

  void barrier(const std::string& what) override {
    auto t = torch::zeros({1}, torch::dtype(torch::kLong).device(device_));
    auto work = start(concat("barrier \"", what, "\""), t,
                      [&](ProcessGroup& group) { return group.sum(t); });
    wait(*work);
    place_ = concat(" after \"", what, "\"");
  }

  void agree(const std::string& what, const std::string& value) override;

  void leave() override {
    check_alive();
    finish();
    barrier("the end");
    left_ = true;
    membership_.leave(timeout_);
    group_.reset();
  }

  void abort(const std::string& why) noexcept override { membership_.detector().abort(why); }

 private:
  struct Begun {
    WorkPointer work;
    torch::Tensor tensor;  // kept alive
  };

  void connect();
  template <class Call>
  WorkPointer start(const std::string& kind, const torch::Tensor& t, const Call& call);
  void wait(c10d::Work& work);
  template <class Done>
  bool wait_until(const Done& done);
  void check_alive() const {
    if (const auto why = membership_.detector().failure()) give_up(*why);
  }
  [[noreturn]] void give_up(const std::string& why) const {
    throw Error(concat(why, ". All ranks end; start again from the last checkpoint."));
  }
  // Leaks a failed group on purpose: its destructor would wait for operations that never end.
  void abandon() noexcept { static_cast<void>(group_.release()); }

  const LaunchEnvironment launched_;
  const milliseconds timeout_;
  const torch::Device device_;
  Membership membership_;
  std::unique_ptr<ProcessGroup> group_;
  bool left_ = false;
  std::string place_;  // " after "what"" of the last barrier

  std::mutex mutex_;  // autograd hooks begin sums from other threads
  int64_t operations_ = 0, agreements_ = 0;
  std::vector<Begun> begun_;
};

// Makes the group and runs its first operation in a separate thread: both may wait for a rank that
// has just died, and NCCL waits without a limit.
void C10dCommunicator::connect() {
  GroupOptions options;
  options.store = membership_.store();
  options.rank = rank();
  options.size = size();
  options.timeout = timeout_;
  options.master_address = launched_.master_address;
  options.one_machine = membership_.one_machine();
  membership_.detector().at(++operations_, "connecting");
  std::packaged_task<std::unique_ptr<ProcessGroup>()> task([options, device = device_] {
    auto group = device.is_cuda() ? make_nccl_group(options) : make_gloo_group(options);
    auto first = torch::zeros({1}, torch::dtype(torch::kLong).device(device));
    group->sum(first)->wait();
    return group;
  });
  auto made = task.get_future();
  std::thread(std::move(task)).detach();
  const bool ready =
      wait_until([&] { return made.wait_for(microseconds(0)) == std::future_status::ready; });
  if (!ready)
    give_up(membership_.detector().explain({FailedOperation::Kind::kTimeout, timeout_, ""}));
  try {
    group_ = made.get();
    // The group uses the store, whose connection fails when another rank is lost. Any other Error
    // is this rank's own.
  } catch (const ConnectionSilent&) {
    give_up(membership_.detector().explain({FailedOperation::Kind::kTimeout, timeout_, ""}));
  } catch (const ConnectionClosed& error) {
    give_up(membership_.detector().explain(
        {FailedOperation::Kind::kConnectionLost, timeout_, error.what()}));
  } catch (const Error& error) {
    membership_.detector().abort(error.what());
    throw;
  } catch (const std::exception& error) {
    give_up(membership_.detector().explain(
        {FailedOperation::Kind::kConnectionLost, timeout_, reason_of(error)}));
  }
}

template <class Call>
WorkPointer C10dCommunicator::start(const std::string& kind, const torch::Tensor& t,
                                    const Call& call) {
  check_alive();
  HYDRAMIX_CHECK(!left_, kind, ": this rank has left the run");
  HYDRAMIX_CHECK(t.is_contiguous(), kind, ": the tensor must be contiguous; got shape ", t.sizes(),
                 " with strides ", t.strides(), ". Call contiguous() first.");
  HYDRAMIX_CHECK(t.device() == device_, kind, ": the tensor lies on ", t.device().str(),
                 ", the communicator is of ", device_.str(), ". Move one of them.");
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++operations_;
  }
  membership_.detector().at(number, kind + place_);
  try {
    return call(*group_);
  } catch (const std::exception& error) {
    throw Error(concat(kind, " of a tensor of ", t.dtype().name(), " and shape ", t.sizes(),
                       " could not be begun: ", reason_of(error)));
  }
}

// False after the timeout. Throws when the run has failed.
template <class Done>
bool C10dCommunicator::wait_until(const Done& done) {
  const auto begin = Clock::now();
  auto interval = kFirstPoll;
  while (!done()) {
    check_alive();
    if (Clock::now() - begin > timeout_) return false;
    std::this_thread::sleep_for(interval);
    interval = std::min(interval * 2, kLongestPoll);
  }
  return true;
}

void C10dCommunicator::wait(c10d::Work& work) {
  if (!wait_until([&] { return work.isCompleted(); }))
    give_up(membership_.detector().explain({FailedOperation::Kind::kTimeout, timeout_, ""}));
  try {
    // NCCL's wait() only makes the current stream wait; it reports no errors.
    if (const auto error = work.exception()) std::rethrow_exception(error);
    work.wait();
  } catch (const std::exception& error) {
    const std::string text = reason_of(error);
    // Gloo may time out before our own clock does.
    const auto kind = text.find("imed out") == std::string::npos
                          ? FailedOperation::Kind::kConnectionLost
                          : FailedOperation::Kind::kTimeout;
    give_up(membership_.detector().explain({kind, timeout_, ""}));
  }
}

// Each rank puts a fingerprint of its value into its own slot; one sum gathers them. The values
// themselves are read from the store only when the fingerprints differ.
void C10dCommunicator::agree(const std::string& what, const std::string& value) {
  check_alive();
  const std::string prefix = concat("agree/", ++agreements_, "/");
  try {
    put(*membership_.store(), prefix + std::to_string(rank()), value);
  } catch (const std::exception&) {
    give_up(membership_.detector().explain({FailedOperation::Kind::kConnectionLost, timeout_, ""}));
  }
  auto prints = torch::zeros({size()}, torch::kLong);
  prints[rank()] = fingerprint(value);
  prints = prints.to(device_);
  auto work = start(concat("agreement on ", what), prints,
                    [&](ProcessGroup& group) { return group.sum(prints); });
  wait(*work);
  prints = prints.cpu();
  if (prints.eq(prints[0]).all().item<bool>()) return;

  std::map<std::string, std::vector<int64_t>> ranks_of;
  for (int64_t r = 0; r < size(); ++r)
    ranks_of[read(*membership_.store(), prefix + std::to_string(r))].push_back(r);
  barrier(concat("disagreement on ", what));  // all have read before the host ends
  const std::string* common = nullptr;        // the majority's value; in a tie, the lowest rank's
  for (const auto& [text, ranks] : ranks_of)
    if (common == nullptr || ranks.size() > ranks_of[*common].size() ||
        (ranks.size() == ranks_of[*common].size() && ranks[0] < ranks_of[*common][0]))
      common = &text;
  std::vector<std::string> differing;
  std::vector<std::string> others;
  for (const auto& [text, ranks] : ranks_of)
    if (&text != common) others.push_back(text);
  const Disagreement disagreement(*common, others);
  for (const auto& [text, ranks] : ranks_of)
    for (const auto r : ranks)
      if (&text != common)
        differing.push_back(concat(membership_.name(r), " has ", disagreement.shown(text)));
  throw Error(concat("the ranks do not agree on ", what, ": ", join(differing), ", but ",
                     membership_.name(ranks_of[*common][0]),
                     ranks_of[*common].size() > 1 ? " and others have " : " has ",
                     disagreement.shown(*common), ". Start all ranks alike."));
}

}  // namespace

std::unique_ptr<Communicator> make_c10d_communicator(const LaunchEnvironment& launched,
                                                     const CommunicatorOptions& options,
                                                     torch::Device device) {
  HYDRAMIX_CHECK(
      !device.is_cuda() || device.has_index(),
      "communicator: device cuda has no index; give the local rank's, cuda:", launched.local_rank);
  device.is_cuda() ? check_nccl_available() : check_gloo_available();
  return std::make_unique<C10dCommunicator>(launched, options, device);
}

}  // namespace hydramix
