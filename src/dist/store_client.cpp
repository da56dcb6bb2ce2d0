// SPDX-License-Identifier: Apache-2.0
#include "dist/store_client.h"

#include <algorithm>
#include <thread>

#include "base/spelling.h"
#include "dist/heartbeat.h"

namespace hydramix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLongestConnect(5000), kBetweenAttempts(50), kFirstAsk(1), kLongestAsk(20);

std::string to_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string place_of(const StoreClientOptions& options) {
  return concat(options.address, ":", options.port, " (MASTER_ADDR:MASTER_PORT)");
}

const Nonce& nonce_of_process() {
  static const Nonce nonce = random_nonce();
  return nonce;
}

std::vector<sockaddr_storage> addresses_of(const StoreClientOptions& options) {
  try {
    return resolve(options.address, options.port);
  } catch (const Error& error) {
    throw Error(concat("rank ", options.rank, " cannot find the store at ", place_of(options), ": ",
                       error.what(), ". MASTER_ADDR must name rank 0's machine."));
  }
}

Connection connect_to(const StoreClientOptions& options) {
  const auto deadline = Clock::now() + options.timeout;
  const ClientHello self{kStoreVersion, options.size, options.rank, !options.secret.empty(),
                         nonce_of_process()};
  const StorePlace place{place_of(options), options.secret};
  std::string reason;    // why the last attempt failed
  bool hung_up = false;  // the service closes connections
  while (true) {
    for (const auto& address : addresses_of(options)) {
      bool connected = false;
      try {
        // Packets to one address of a host may be lost; the next one is then tried in time.
        Connection connection(address, std::min(deadline, Clock::now() + kLongestConnect));
        connected = true;
        shake_hands(connection, self, place, deadline);
        return connection;
      } catch (const ConnectionRefused& error) {
        reason = error.what();
        hung_up = false;
      } catch (const ConnectionClosed& error) {
        reason = error.what();
        hung_up = true;
      } catch (const ConnectionSilent& error) {
        // The deadline may cut the last attempt short. An earlier error then says more.
        if (connected && !hung_up) throw;
        if (reason.empty()) reason = error.what();
      }
    }
    if (Clock::now() + kBetweenAttempts > deadline) {
      HYDRAMIX_CHECK(!hung_up, "rank ", options.rank, ": the service at ", place.text,
                     " is not rank 0 of a HydraMix run: it closes the connection without a word (",
                     reason, "), for ", seconds(options.timeout),
                     ". Is the port taken by another program? Choose another MASTER_PORT.");
      throw Error(concat("rank ", options.rank, " cannot reach the store at ", place.text,
                         " within ", seconds(options.timeout), ": ", reason,
                         ". Rank 0 must run there, and the port must be open between the "
                         "machines."));
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace

StoreClient::StoreClient(const StoreClientOptions& options)
    : Store(options.timeout), place_(place_of(options)), connection_(connect_to(options)) {}

StoreMessage StoreClient::ask(const StoreMessage& request) {
  const std::lock_guard lock(mutex_);
  // A late answer to an earlier request would be taken for the answer to this one.
  if (out_of_step_)
    throw ConnectionClosed(concat("the store at ", place_, " did not answer an earlier request"));
  const auto deadline = Clock::now() + getTimeout();
  try {
    connection_.send(request.bytes(), deadline);
    const std::size_t length = message_length(connection_.receive(kLengthBytes, deadline));
    return StoreMessage::parse(connection_.receive(length, deadline));
  } catch (const ConnectionSilent&) {
    out_of_step_ = true;
    throw ConnectionSilent(
        concat("the store at ", place_, " has not answered for ", seconds(getTimeout())));
  } catch (const ConnectionClosed& error) {
    throw ConnectionClosed(concat("the store at ", place_, " is gone: ", error.what()));
  } catch (const Error& error) {
    throw Error(concat("the store at ", place_, " sent ", error.what()));
  }
}

void StoreClient::set(const std::string& key, const std::vector<uint8_t>& value) {
  ask({Code::kSet, {key, to_text(value)}});
}

std::vector<uint8_t> StoreClient::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  return to_bytes(ask({Code::kCompareSet, {key, to_text(expected), to_text(desired)}}).texts.at(0));
}

std::vector<uint8_t> StoreClient::get(const std::string& key) {
  wait({key});
  return to_bytes(ask({Code::kGet, {key}}).texts.at(0));
}

int64_t StoreClient::add(const std::string& key, int64_t value) {
  return std::stoll(ask({Code::kAdd, {key, std::to_string(value)}}).texts.at(0));
}

bool StoreClient::deleteKey(const std::string& key) {
  return ask({Code::kDelete, {key}}).code == Code::kYes;
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  return ask({Code::kCheck, keys}).code == Code::kYes;
}

int64_t StoreClient::getNumKeys() { return std::stoll(ask({Code::kCount, {}}).texts.at(0)); }

void StoreClient::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void StoreClient::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const auto deadline = Clock::now() + timeout;
  for (auto pause = kFirstAsk; !check(keys); pause = std::min(2 * pause, kLongestAsk)) {
    if (Clock::now() >= deadline)
      throw ConnectionSilent(concat("the store at ", place_, " has no ",
                                    join({keys.begin(), keys.end()}), " after ", seconds(timeout)));
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace hydramix
