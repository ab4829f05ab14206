#include "trainer/learner/followers.h"

#include <fmt/core.h>

#include <exception>
#include <limits>
#include <map>
#include <new>

#include "formats/artifact/bound.h"
#include "formats/kinds/open.h"
#include "lib/base/errors.h"
#include "trainer/base/interval.h"
#include "trainer/learner/critic_model.h"
#include "trainer/learner/follow.h"
#include "trainer/model/decoder_config.h"

namespace nxdkit::trainer {
namespace {

// The next order may take any time.
const Transport::Waiting kWaitForOrder{nullptr, std::nullopt, Transport::Pace::kIdle};

Transport::Waiting PeerWait(const Transport& transport,
                            Transport::Pace pace = Transport::Pace::kMoving) {
  return {nullptr, transport.patience(), pace};
}

// A follower's part of one model of the run.
struct Followed {
  artifact::BoundArtifact base;
  std::unique_ptr<const CriticModel> critic;
  std::unique_ptr<const DecoderConfig> config;
  std::unique_ptr<MeshModel> model;
};

class Follower {
 public:
  Follower(Transport& transport, const OrderHandlers& handlers)
      : transport_(transport), handlers_(handlers), tells_(transport.patience() / 8) {}

  Status Run() {
    while (true) {
      NXDKIT_ASSIGN(const Json order, ReceiveMessage(transport_, 0, kOrderChannel, kWaitForOrder));
      const std::string call = order.value("call", "");
      if (call == "end") return OkStatus();
      const auto handler = handlers_.find(call);
      if (handler != handlers_.end())
        NXDKIT_TRY(Answer(handler->second(order, [this] { return Working(); })));
      else
        NXDKIT_TRY(call == "make" ? Make(order) : Serve(call, order));
    }
  }

 private:
  // The leader decides what an error means.
  Status Answer(const Result<Json>& answer) {
    if (answer.ok()) return SendMessage(transport_, 0, kAnswerChannel, *answer);
    return SendMessage(transport_, 0, kAnswerChannel, {{"error", ErrorMessage(answer.error())}});
  }

  // Called from several threads, whose messages must not interleave.
  Status Working() {
    if (!tells_.Passed()) return OkStatus();
    const std::scoped_lock lock(telling_);
    return SendMessage(transport_, 0, kAnswerChannel, {{"working", true}});
  }

  Status Make(const Json& order) {
    const std::string path = order["source"].get<std::string>();
    Followed made;
    NXDKIT_ASSIGN(made.base, kinds::OpenAndBind(path, nullptr, {}));
    if (made.base.artifact.config_text != order["config"].get<std::string>())
      return Corrupt("process {} finds a different configuration of the model than process 0",
                     transport_.process())
          .in(made.base.artifact.config_path);
    MeshOptions options = OptionsOfMessage(order["options"]);
    options.transport = &transport_;
    options.led = true;
    const DecoderConfig* config = nullptr;
    const artifact::BoundArtifact* source = nullptr;
    if (order["critic"].get<bool>()) {
      NXDKIT_ASSIGN(CriticModel critic,
                    MakeCriticModel(std::move(made.base), order["seed"].get<uint64_t>()));
      made.critic = std::make_unique<const CriticModel>(std::move(critic));
      config = &made.critic->config;
      source = &made.critic->source;
    } else {
      NXDKIT_ASSIGN(DecoderConfig parsed, ParseDecoderConfig(made.base.artifact.config_text,
                                                             made.base.artifact.config_path));
      made.config = std::make_unique<const DecoderConfig>(std::move(parsed));
      config = made.config.get();
    }
    Followed& kept = models_.emplace(order["id"].get<int64_t>(), std::move(made)).first->second;
    NXDKIT_ASSIGN(kept.model,
                  MeshModel::Make(*config, options, source != nullptr ? *source : kept.base));
    return OkStatus();
  }

  Status Serve(const std::string& call, const Json& order) {
    const Followed& followed = models_.at(order["id"].get<int64_t>());
    MeshModel& model = *followed.model;
    if (call == "write")
      return model.WriteShare(
          followed.critic ? followed.critic->source.artifact : followed.base.artifact,
          {order["folder"].get<std::string>(), order["lr"].get<double>(),
           order["model_only"].get<bool>(), order["jobs"].get<int>()});
    if (call == "read") return Read(model, order);
    if (call == "restore") return model.Restore(order["folder"].get<std::string>(), {});
    const std::vector<Row> rows = RowsOfMessage(order["rows"]);
    if (call == "evaluate") {
      NXDKIT_TRY(model.Evaluate(rows));
      return OkStatus();
    }
    return Update(model, rows, order);
  }

  Status Read(MeshModel& model, const Json& order) {
    std::vector<std::byte> bytes(order["size"].get<size_t>());
    NXDKIT_TRY(model.ReadOwn(
        {order["rank"].get<int>(), order["array"].get<int>(), order["part"].get<int>()},
        order["begin"].get<uint64_t>(), bytes));
    const Transport::Send send{0, kAnswerChannel, bytes};
    return transport_.Run({&send, 1}, {}, PeerWait(transport_));
  }

  Status Update(MeshModel& model, std::span<const Row> rows, const Json& order) {
    std::vector<std::vector<size_t>> shares;
    for (const Json& share : order["shares"]) shares.push_back(Values<size_t>(share));
    const auto loss = [&](int dp_rank, bool, std::span<const size_t> micro,
                          std::span<const float> outputs, std::span<float> gradient) {
      return AskForLoss(dp_rank, micro, outputs, gradient);
    };
    NXDKIT_TRY(model.Update(rows, shares, loss, order["lr"].get<double>()));
    for (const int dp_rank : model.LedDataParallelRanks(transport_.process()))
      NXDKIT_TRY(SendMessage(transport_, 0, kLossChannel + dp_rank, Json{{"end", true}}));
    return OkStatus();
  }

  // The loss is a closure of the training loop, in process 0.
  Status AskForLoss(int dp_rank, std::span<const size_t> micro, std::span<const float> outputs,
                    std::span<float> gradient) {
    const int channel = kLossChannel + dp_rank;
    NXDKIT_TRY(SendMessage(transport_, 0, channel,
                           Json{{"micro", Bytes(micro)}, {"outputs", Bytes(outputs)}}));
    NXDKIT_ASSIGN(const Json answer, ReceiveMessage(transport_, 0, channel, PeerWait(transport_)));
    // The leader could not compute it: no rank takes the step.
    if (!answer.contains("gradient")) {
      std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
      return OkStatus();
    }
    const std::vector<float> found = Values<float>(answer["gradient"]);
    if (found.size() != gradient.size())
      return Error(Errc::kInternal, "the loss covers other tokens than were sent");
    std::ranges::copy(found, gradient.begin());
    return OkStatus();
  }

  Transport& transport_;
  const OrderHandlers& handlers_;
  std::map<int64_t, Followed> models_;
  Interval tells_;  // several times within the leader's patience
  std::mutex telling_;
};

// visit(name in a message, value) of all options that followers share with the leader.
template <typename Options, typename Visit>
void EachOption(Options& o, const Visit& visit) {
  visit("tp", o.tp);
  visit("dp", o.dp);
  visit("compute", o.decoder.compute);
  visit("recompute", o.decoder.recompute);
  visit("kept_bytes", o.decoder.kept_bytes);
  visit("max_positions", o.decoder.max_positions);
  visit("trainable", o.decoder.trainable);
  visit("temperature", o.temperature);
  visit("max_grad_norm", o.max_grad_norm);
  visit("update_tokens", o.update.max_tokens);
  visit("update_rows", o.update.max_rows);
  visit("experience_tokens", o.experience.max_tokens);
  visit("experience_rows", o.experience.max_rows);
  visit("optimizer", o.optimizer.type);
  visit("beta1", o.optimizer.adam.beta1);
  visit("beta2", o.optimizer.adam.beta2);
  visit("epsilon", o.optimizer.adam.epsilon);
  visit("weight_decay", o.optimizer.adam.weight_decay);
  visit("seed", o.optimizer.seed);
  visit("overlap", o.overlap);
  visit("ranks_of_process", o.ranks_of_process);
  visit("least_bucket", o.least_bucket);
}

}  // namespace

// A failure on the way leaves messages behind that would be taken for later answers.
Status Leader::Talk(const std::function<Status()>& talk) {
  const std::scoped_lock lock(mutex_);
  if (!in_order_)
    return Error(Errc::kLost,
                 "after an earlier failure the other processes of the run can no longer be asked");
  Status talked = talk();
  if (!talked.ok()) in_order_ = false;
  return talked;
}

Status Leader::TellAll(const Json& order) {
  return Talk([&]() -> Status {
    for (int p = 1; p < transport_.processes(); ++p)
      NXDKIT_TRY(SendMessage(transport_, p, kOrderChannel, order));
    return OkStatus();
  });
}

Status Leader::Ask(int process, const Json& order, std::span<std::byte> to) {
  return Talk([&]() -> Status {
    NXDKIT_TRY(SendMessage(transport_, process, kOrderChannel, order));
    const Transport::Receive receive{process, kAnswerChannel, to};
    return transport_.Run({}, {&receive, 1}, PeerWait(transport_));
  });
}

Result<Json> Leader::Ask(int process, const Json& order, const std::function<Status()>& then) {
  Json answer;
  const Status talked = Talk([&]() -> Status {
    NXDKIT_TRY(SendMessage(transport_, process, kOrderChannel, order));
    if (then) NXDKIT_TRY(then());
    do {
      NXDKIT_ASSIGN(answer, ReceiveMessage(transport_, process, kAnswerChannel,
                                           PeerWait(transport_, Transport::Pace::kIdle)));
    } while (answer.contains("working"));
    return OkStatus();
  });
  NXDKIT_TRY(talked);
  if (!answer.contains("error")) return answer;
  const Error error = ErrorOfMessage(answer["error"]);
  return Error(error.code(), fmt::format("process {}: {}", process, error.message()));
}

Json RowsMessage(std::span<const Row> rows) {
  std::vector<int32_t> lengths, ids;
  for (const Row& row : rows)
    for (const std::vector<int32_t>* part : {&row.prompt, &row.response}) {
      lengths.push_back(static_cast<int32_t>(part->size()));
      ids.insert(ids.end(), part->begin(), part->end());
    }
  return {{"lengths", Bytes(std::span<const int32_t>(lengths))},
          {"ids", Bytes(std::span<const int32_t>(ids))}};
}

std::vector<Row> RowsOfMessage(const Json& message) {
  const std::vector<int32_t> lengths = Values<int32_t>(message["lengths"]);
  const std::vector<int32_t> ids = Values<int32_t>(message["ids"]);
  std::vector<Row> rows(lengths.size() / 2);
  auto at = ids.begin();
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].prompt.assign(at, at + lengths[2 * r]);
    at += lengths[2 * r];
    rows[r].response.assign(at, at + lengths[2 * r + 1]);
    at += lengths[2 * r + 1];
  }
  return rows;
}

Json OptionsMessage(const MeshOptions& options) {
  Json message;
  EachOption(options, [&](const char* name, const auto& value) { message[name] = value; });
  return message;
}

MeshOptions OptionsOfMessage(const Json& message) {
  MeshOptions options;
  EachOption(options, [&](const char* name, auto& value) { message[name].get_to(value); });
  return options;
}

Status Follow(Transport& transport, const OrderHandlers& handlers) {
  try {
    return Follower(transport, handlers).Run();
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the message of process 0");
  } catch (const std::exception& error) {
    return Error(Errc::kInternal, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace nxdkit::trainer
