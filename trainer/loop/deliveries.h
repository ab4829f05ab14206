// Delivers weights to the rollout workers of machines that do not see the folders of process 0:
// whole, or, where a bundle was already sent, as a delta from that version. Every file is verified
// by its digest on arrival, a delta's result by the model's; the engine then checks the weights
// that it expects as it does everywhere. PRIVATE: it exposes parsed JSON; include it from .cc files
// only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"

namespace nxdkit::trainer {

// Those of the processes that do not see the folder, which exists.
Result<std::vector<int>> ProcessesWithoutFolder(Leader& leader, const std::vector<int>& processes,
                                                const std::string& folder);
// The first of the processes that does not have this small file, either the same one or a copy.
Result<std::optional<int>> FirstProcessWithoutFile(Leader& leader,
                                                   const std::vector<int>& processes,
                                                   const std::string& path);

// Process 0's side.
class Deliveries {
 public:
  // `machines`: those with rollout workers, other than machine 0. `leader` must outlive it.
  Deliveries(Leader& leader, std::vector<int> machines)
      : leader_(leader), machines_(std::move(machines)) {}

  // Asks the machines whether they see `folder`, which exists; those that do are sent nothing.
  Status Look(const std::string& folder);
  const std::vector<int>& blind() const { return machines_; }

  // Sends it whole to the same path, where it replaces whatever exists.
  Status SendFolder(const std::string& folder);
  // Whether SendFolder has sent it: then it can be updated.
  bool HasSent(const std::string& folder) const { return sent_ == folder; }
  // Applies the file to the bundle there, which equals the previous `bundle`; its weights become
  // version `label`.
  Status SendDelta(const std::string& delta, const std::string& bundle, const std::string& label);

 private:
  Status SendFile(int machine, const std::string& from, const std::string& to);
  Leader& leader_;
  std::vector<int> machines_;
  std::string sent_;
};

// The receiving side, in the other processes.
class DeliveryHost {
 public:
  explicit DeliveryHost(Transport& transport) : transport_(transport) {}
  void AddHandlers(OrderHandlers& handlers);

 private:
  Result<Json> TakeFile(const Json& order);
  Transport& transport_;
};

}  // namespace nxdkit::trainer
