// The losses of an update that several processes make together: they are closures of the training
// loop, and so live in process 0. PRIVATE: it exposes parsed JSON; include it from .cc files only.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lib/json/json.h"
#include "trainer/comm/transport.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

// Delays the failure of a loss until the update is over: until then no process leaves the others,
// and a NaN gradient makes all of them skip the step. It is a MeshModel::Loss that always succeeds.
class HeldLoss {
 public:
  explicit HeldLoss(const MeshModel::Loss& loss) : loss_(loss) {}
  Status operator()(int dp_rank, bool record, std::span<const size_t> rows,
                    std::span<const float> outputs, std::span<float> gradient);
  void Fail(Status failed);
  // The first failure; to be asked when no more calls come.
  const Status& first() const { return first_; }

 private:
  const MeshModel::Loss& loss_;
  std::mutex mutex_;
  Status first_ = OkStatus();
};

// In process 0: computes losses for followers while an update runs.
class LossServers {
 public:
  LossServers(Transport& transport, HeldLoss& loss) : transport_(transport), loss_(loss) {}
  ~LossServers() { cancelled_ = true; }

  void Serve(int process, int dp_rank);
  // Called after the update; a failed one is not waited for.
  Status End(bool ran);

 private:
  Status ServeAll(int process, int dp_rank);
  Json AnswerTo(const Json& asked, int dp_rank);

  Transport& transport_;
  HeldLoss& loss_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  Status result_ = OkStatus();
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace nxdkit::trainer
