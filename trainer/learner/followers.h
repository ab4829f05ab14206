// A mesh over several processes, led by one: process 0 runs the training loop and makes each call
// of its models known to the other processes, which follow: they hold their ranks of the models,
// make the same calls, and serve what they hold. PRIVATE: it takes parsed JSON; include it from .cc
// files only.
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

// Of process 0. Thread-safe. An answer is waited for while the other process says that it works;
// when it has said nothing for the transport's patience, it hangs: kLost. (One that is gone is
// found out by the heartbeats, trainer/comm/heartbeat.h, which have a thread of their own there.)
class Leader {
 public:
  explicit Leader(Transport& transport) : transport_(transport) {}
  Status TellAll(const Json& order);
  int64_t NextId() { return next_id_++; }
  // `to` becomes what the follower answers.
  Status Ask(int process, const Json& order, std::span<std::byte> to);
  // Of an order that is a handler's (follow.h): its answer, or its error. `then`: what follows the
  // order on other channels.
  Result<Json> Ask(int process, const Json& order, const std::function<Status()>& then = nullptr);
  Transport& transport() const { return transport_; }
  // A call of a model has failed: its other ranks may wait for this process's, which do not come.
  void CallFailed() { in_order_ = false; }
  // Whether the followers wait for the next order. Once they do not, or a message was lost on the
  // way, nothing more can be asked: the answer would be that to something else.
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
