#include "tools/inspect/training_facts.h"

namespace nxdkit::tool {

void AddAdapter(Facts& facts, const std::optional<ops::AdapterFacts>& adapter) {
  if (!adapter) return facts.Key("adapter", {});
  std::string text = adapter->type.empty() ? "type not said" : adapter->type;
  if (adapter->rank) text += fmt::format(", rank {}", *adapter->rank);
  if (adapter->alpha) text += fmt::format(", alpha {}", *adapter->alpha);
  facts.Add("adapter", fmt::format("{}, {} pairs of A and B", text, adapter->pairs), "adapter",
            {{"type", adapter->type},
             {"base_model", adapter->base_model},
             {"rank", OrNull(adapter->rank)},
             {"alpha", FiniteOrNull(adapter->alpha)},
             {"targets", adapter->targets},
             {"pairs", adapter->pairs}});
  if (!adapter->base_model.empty()) facts.Line("base model", Short(adapter->base_model));
  if (!adapter->targets.empty()) facts.Line("targets", Joined(adapter->targets, Short));
}

void AddOptimizer(Facts& facts, const std::optional<ops::OptimizerFacts>& optimizer) {
  if (!optimizer) return facts.Key("optimizer", {});
  const ops::OptimizerFacts& o = *optimizer;
  facts.Add("grid",
            fmt::format("dp {}, tp {}, pp {}{}; {} files, {} missing", o.dp, o.tp, o.pp,
                        o.ep > 1 ? fmt::format(", ep {}", o.ep) : "", o.files, o.missing),
            "optimizer",
            {{"dp", o.dp},
             {"tp", o.tp},
             {"pp", o.pp},
             {"ep", o.ep},
             {"files", o.files},
             {"missing", o.missing},
             {"zero1", o.zero1}});
}

void AddTrainer(Facts& facts, const std::optional<ops::TrainerFacts>& trainer) {
  if (!trainer) return facts.Key("trainer", {});
  const auto json = [](const auto& setting) -> Json {
    return {{"key", setting.first}, {"value", setting.second}};
  };
  facts.Key("trainer", {{"step", OrNull(trainer->step)},
                        {"epoch", FiniteOrNull(trainer->epoch)},
                        {"settings", ArrayOf(trainer->settings, json)},
                        {"metadata", trainer->metadata}});
  if (trainer->step)
    facts.Line("trainer",
               fmt::format("step {}{}", *trainer->step,
                           trainer->epoch ? fmt::format(", epoch {}", *trainer->epoch) : ""));
  if (!trainer->settings.empty())
    facts.Line("trn_config", Joined(trainer->settings, [](const auto& setting) {
                 return Short(setting.first) + " " + setting.second;
               }));
}

void AddDelta(Facts& facts, const std::optional<ops::DeltaFacts>& delta) {
  if (!delta) return facts.Key("delta", {});
  const char* coding = delta->coding == delta::Coding::kUlp ? "ulp" : "raw";
  facts.Add("changed",
            fmt::format("{} of {} elements in {} parameters", delta->changed, delta->elements,
                        delta->parameters),
            "delta",
            {{"coding", coding},
             {"parameters", delta->parameters},
             {"elements", delta->elements},
             {"changed", delta->changed},
             {"dense_bytes", delta->dense_bytes},
             {"payload_bytes", delta->payload_bytes},
             {"base_digest", delta->base},
             {"result_digest", delta->result}});
  facts.Line("payload", fmt::format("{} of {} dense; coding {}", HumanBytes(delta->payload_bytes),
                                    HumanBytes(delta->dense_bytes), coding));
  facts.Line("base", delta->base);
  facts.Line("result", delta->result);
}

}  // namespace nxdkit::tool
