#include "trainer/learner/led_losses.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/comm/messages.h"

namespace nxdkit::trainer {
namespace {

Status Guarded(const MeshModel::Loss& loss, int dp_rank, bool record, std::span<const size_t> rows,
               std::span<const float> outputs, std::span<float> gradient) {
  try {
    return loss(dp_rank, record, rows, outputs, gradient);
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the loss of {} tokens", outputs.size());
  }
}

}  // namespace

Status HeldLoss::operator()(int dp_rank, bool record, std::span<const size_t> rows,
                            std::span<const float> outputs, std::span<float> gradient) {
  Status computed = Guarded(loss_, dp_rank, record, rows, outputs, gradient);
  if (computed.ok()) return computed;
  std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
  Fail(std::move(computed));
  return OkStatus();
}

void HeldLoss::Fail(Status failed) {
  const std::scoped_lock lock(mutex_);
  if (first_.ok()) first_ = std::move(failed);
}

void LossServers::Serve(int process, int dp_rank) {
  threads_.emplace_back([this, process, dp_rank] {
    Status served = ServeAll(process, dp_rank);
    const std::scoped_lock lock(mutex_);
    if (!served.ok() && result_.ok()) result_ = std::move(served);
  });
}

Status LossServers::End(bool ran) {
  if (!ran) cancelled_ = true;
  threads_.clear();
  return ran ? std::move(result_) : OkStatus();
}

Status LossServers::ServeAll(int process, int dp_rank) {
  const int channel = kLossChannel + dp_rank;
  while (true) {
    NXDKIT_ASSIGN(const Json asked,
                  ReceiveMessage(transport_, process, channel,
                                 {&cancelled_, std::nullopt, Transport::Pace::kIdle}));
    if (asked.contains("end")) return OkStatus();
    NXDKIT_TRY(SendMessage(transport_, process, channel, AnswerTo(asked, dp_rank)));
  }
}

// Without a gradient the follower uses one that skips the step.
Json LossServers::AnswerTo(const Json& asked, int dp_rank) {
  try {
    const std::vector<size_t> micro = Values<size_t>(asked["micro"]);
    const std::vector<float> outputs = Values<float>(asked["outputs"]);
    std::vector<float> gradient(outputs.size());
    static_cast<void>(loss_(dp_rank, true, micro, outputs, gradient));  // it keeps the failure
    return {{"gradient", Bytes(std::span<const float>(gradient))}};
  } catch (const std::bad_alloc&) {
    loss_.Fail(OverLimit("not enough memory for the losses of another process"));
    return Json::object();
  }
}

}  // namespace nxdkit::trainer
