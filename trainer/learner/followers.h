// A mesh over several processes, led by one: process 0 runs the training loop and announces each
// call of its models to the other processes, the followers. They hold their ranks of the models,
// make the same calls, and serve the memory that they hold. PRIVATE: it exposes parsed JSON;
// include it from .cc files only.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "trainer/comm/messages.h"
#include "trainer/comm/transport.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

// Process 0's side. Thread-safe. It waits for an answer while the other process reports that it
// works; after silence for the transport's patience, that process hangs: kLost. (A process that is
// gone is noticed by the heartbeats, trainer/comm/heartbeat.h, which have their own thread there.)
class Leader {
 public:
  explicit Leader(Transport& transport) : transport_(transport) {}
  Status TellAll(const Json& order);
  int64_t NextId() { return next_id_++; }
  // `to` is filled with the follower's answer.
  Status Ask(int process, const Json& order, std::span<std::byte> to);
  // Sends an order for a handler (follow.h), and returns its answer or its error. `then`: the
  // exchange that follows the order on other channels.
  Result<Json> Ask(int process, const Json& order, const std::function<Status()>& then = nullptr);
  Transport& transport() const { return transport_; }
  // A call of a model has failed: its other ranks may wait for messages of this process that do not
  // come.
  void CallFailed() { in_order_ = false; }
  // Whether the followers wait for the next order. Once they do not, or a message was lost on the
  // way, nothing more can be asked: the answer would belong to something else.
  bool in_order() const { return in_order_; }

 private:
  Status Talk(const std::function<Status()>& talk);
  Transport& transport_;
  std::mutex mutex_;
  std::atomic<int64_t> next_id_{0};
  std::atomic<bool> in_order_{true};
};

Json OptionsMessage(const MeshOptions& options);
MeshOptions OptionsOfMessage(const Json& message);
Json RowsMessage(std::span<const Row> rows);
std::vector<Row> RowsOfMessage(const Json& message);

}  // namespace nxdkit::trainer
