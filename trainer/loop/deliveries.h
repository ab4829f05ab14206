// Weights for the rollout workers of machines that do not see the folders of process 0: sent as
// they are, or, once a bundle is there, as a delta from the version that is there. Every file is
// proved by its digest when it has arrived, a delta's result by the model's, and then the engine
// looks for the weights that it expects as it does everywhere. PRIVATE: it takes parsed JSON;
// include it from .cc files only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"

namespace nxdkit::trainer {

// Which of the processes do not see the folder, which is there.
Result<std::vector<int>> BlindFor(Leader& leader, const std::vector<int>& processes,
                                  const std::string& folder);
// The first of the processes that has no such small file, whether it is this one or a copy.
Result<std::optional<int>> FirstWithout(Leader& leader, const std::vector<int>& processes,
                                        const std::string& path);

// Of process 0.
class Deliveries {
 public:
  // `machines`: those with rollout workers, other than machine 0. `leader` must outlive it.
  Deliveries(Leader& leader, std::vector<int> machines)
      : leader_(leader), machines_(std::move(machines)) {}

  // Asks the machines whether they see `folder`, which is there; those that do get nothing.
  Status Look(const std::string& folder);
  const std::vector<int>& blind() const { return machines_; }

  // To the same path there, whole, in the place of what is there.
  Status SendFolder(const std::string& folder);
  // Whether SendFolder has sent it: then it can be changed.
  bool HasSent(const std::string& folder) const { return sent_ == folder; }
  // Applies the file to the bundle there, which is as `bundle` was before; its weights become
  // version `label`.
  Status SendDelta(const std::string& delta, const std::string& bundle, const std::string& label);

 private:
  Status SendFile(int machine, const std::string& from, const std::string& to);
  Leader& leader_;
  std::vector<int> machines_;
  std::string sent_;
};

// Of the others: takes what is sent.
class DeliveryHost {
 public:
  explicit DeliveryHost(Transport& transport) : transport_(transport) {}
  void AddHandlers(OrderHandlers& handlers);

 private:
  Result<Json> TakeFile(const Json& order);
  Transport& transport_;
};

}  // namespace nxdkit::trainer
