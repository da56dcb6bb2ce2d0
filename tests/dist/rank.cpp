// SPDX-License-Identifier: Apache-2.0
// The program that communicator_test starts once per rank.
//
//   dist_rank PART TIMEOUT    plays a part ("killed 1": rank 1 is killed) and prints "done", or the
//                             error that ended it
//   dist_rank agent PORT      hosts the store, as torchrun's agent does
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "dist/communicator.h"
#include "dist/gradient_reducer.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;

void expect(bool condition, const std::string& what) {
  if (!condition) throw Error("expected: " + what);
}

torch::Tensor of_rank(int64_t rank) { return torch::arange(5, torch::kDouble) + 10 * rank; }

// Blocking sums, sums in the background, broadcasts from every rank, agreement.
void collectives(Communicator& comm) {
  const int64_t n = comm.size(), r = comm.rank();
  auto t = of_rank(r);
  comm.sum(t);
  expect(t.equal(n * torch::arange(5, torch::kDouble) + 10 * n * (n - 1) / 2), "the sum");

  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < 20; ++i) {
    parts.push_back(torch::full({100 + i}, static_cast<float>(r + i)));
    comm.begin_sum(parts.back());
  }
  comm.finish();
  for (int64_t i = 0; i < 20; ++i)
    expect(parts[i].eq(static_cast<float>(n * (n - 1) / 2 + n * i)).all().item<bool>(),
           "sum " + std::to_string(i) + " of those begun");

  for (int64_t root = 0; root < n; ++root) {
    auto copy = of_rank(r);
    comm.broadcast(copy, root);
    expect(copy.equal(of_rank(root)), "rank " + std::to_string(root) + "'s tensor");
  }
  comm.barrier("a barrier");
  comm.agree("the colour", "blue");
  comm.agree("nothing", "");
}

// A barrier holds every rank until the last arrives.
void waits(Communicator& comm) {
  // Long: the other ranks may reach the barrier late on a loaded machine.
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const auto begin = Clock::now();
  comm.barrier("the slow one");
  const auto waited = Clock::now() - begin;
  if (comm.rank() != 1) expect(waited > std::chrono::milliseconds(200), "a wait at the barrier");
}

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(5);
    first = register_module("first", torch::nn::Linear(7, 11));
    second = register_module("second", torch::nn::Linear(11, 13));
    unused = register_parameter("unused", torch::ones({17}));
    third = register_module("third", torch::nn::Linear(13, 1));
    to(torch::kDouble);
  }
  torch::Tensor loss(int64_t rank, int64_t micro_batch) {
    auto x = torch::sin(torch::arange(28, torch::kDouble).view({4, 7}) * (1 + rank) + micro_batch);
    return third(torch::tanh(second(torch::tanh(first(x))))).square().sum();
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  torch::Tensor unused;
};

// Three micro-batches per rank, two steps; compared with the sum of all ranks' gradients, computed
// here.
void reduces(Communicator& comm) {
  constexpr int64_t kMicroBatches = 3;
  Net plain;
  for (int64_t rank = 0; rank < comm.size(); ++rank)
    for (int64_t m = 0; m < kMicroBatches; ++m) plain.loss(rank, m).backward();
  for (const int64_t bucket_bytes : {1, 800, 1 << 20}) {
    Net net;
    const auto params = net.parameters();
    int64_t n = 0;
    for (const auto& p : params) n += p.numel();
    auto flat = torch::zeros({n}, torch::kDouble);
    int64_t offset = 0;
    for (const auto& p : params) {
      p.mutable_grad() = flat.narrow(0, offset, p.numel()).view_as(p);
      offset += p.numel();
    }
    GradientReducer reducer(comm, params, flat, bucket_bytes);
    for (int step = 0; step < 2; ++step) {
      flat.zero_();
      for (int64_t m = 0; m < kMicroBatches; ++m) {
        if (m == kMicroBatches - 1) reducer.arm();
        net.loss(comm.rank(), m).backward();
      }
      reducer.finish();
      const auto wanted = plain.parameters();
      for (std::size_t i = 0; i < params.size(); ++i) {
        const auto grad =
            wanted[i].grad().defined() ? wanted[i].grad() : torch::zeros_like(wanted[i]);
        // The same terms in another order: a few roundings of float64.
        expect(torch::allclose(params[i].grad(), grad, 1e-12, 1e-12),
               "the gradient of parameter " + std::to_string(i));
      }
    }
  }
}

[[noreturn]] void stop_here(int signal) {
  std::raise(signal);
  for (;;) pause();
}

int play(const std::string& part, double timeout_s) {
  CommunicatorOptions options;
  options.timeout_s = timeout_s;
  std::unique_ptr<Communicator> comm;
  try {
    comm = make_communicator(options, torch::kCPU);
    const bool victim = part.find(' ') != std::string::npos &&
                        comm->rank() == std::stoll(part.substr(part.find(' ') + 1));
    const std::string act = part.substr(0, part.find(' '));
    auto t = torch::ones({1000});
    comm->sum(t);
    if (act == "collectives") collectives(*comm);
    if (act == "waits") waits(*comm);
    if (act == "reduces") reduces(*comm);
    if (act == "disagrees") comm->agree("the colour", victim ? "red" : "blue");
    if (act == "killed" && victim) stop_here(SIGKILL);
    if (act == "stopped" && victim) stop_here(SIGSTOP);
    if (act == "late" && victim) std::this_thread::sleep_for(std::chrono::seconds(20));
    if (act == "throws" && victim) throw Error("no space left on device");
    if (act == "unwinds" && victim) {
      comm.reset();
      throw Error("an error that nobody passed on");
    }
    comm->barrier("step 1");
    comm->sum(t);
    comm->leave();
    std::cout << "done" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    if (comm) comm->abort(error.what());
    std::cout << error.what() << std::endl;
    return 1;
  }
}

[[noreturn]] void host_store(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  for (;;) pause();
}

}  // namespace
}  // namespace hydramix

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string part = argv[1];
  if (part == "agent") hydramix::host_store(std::stoi(argv[2]));
  const int code = hydramix::play(part, std::stod(argv[2]));
#ifdef __SANITIZE_ADDRESS__
  std::_Exit(code);  // a failed group is leaked on purpose
#else
  return code;
#endif
}
