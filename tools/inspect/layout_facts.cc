#include "tools/inspect/layout_facts.h"

namespace nxdkit::tool {
namespace {

using ops::HardwareSource;
using ops::Inspection;

const char* HardwareName(const ops::NxdFacts& nxd) {
  return nxd.geometry->hardware == models::Hardware::kTrn2 ? "trn2" : "trn1";
}

std::string HardwareText(const ops::NxdFacts& nxd) {
  const char* name = HardwareName(nxd);
  switch (nxd.hardware) {
    case HardwareSource::kIrrelevant:
      return "trn1 and trn2 alike";
    case HardwareSource::kOptions:
      return fmt::format("{} by the options", name);
    case HardwareSource::kSidecar:
      return fmt::format("{} by nxdkit.json", name);
    case HardwareSource::kRecord:
      return fmt::format("{} by optimum-neuron's metadata", name);
    case HardwareSource::kReplicas:
      return fmt::format("{}, read off the copies of the key heads", name);
    case HardwareSource::kUnknown:
      break;
  }
  return nxd.replicas == nxd::ReplicaOrder::kTiled
             ? "not known (copies of key heads are tiled: trn1, or trn2 from a faulty converter)"
             : "not known";
}

void AddSetKeys(Json& layout, const ops::NxdFacts& nxd) {
  layout["set_style"] = nxd::SetStyleName(nxd.location.style);
  layout["tp"] = nxd.location.tp;
  layout["pp"] = nxd.location.pp;
  layout["ep"] = nxd.location.ep;
  layout["xser"] = nxd.xser;
  if (!nxd.geometry) return;
  layout["vpp"] = nxd.geometry->vpp;
  layout["kv_multiplier"] = nxd.geometry->kv_multiplier;
  layout["qkv"] = nxd::QkvStyleName(nxd.geometry->qkv);
  layout["style"] = nxd::NameStyleName(nxd.geometry->names);
  const bool known =
      nxd.hardware != HardwareSource::kUnknown && nxd.hardware != HardwareSource::kIrrelevant;
  if (known) layout["hw"] = HardwareName(nxd);
  layout["hw_source"] = HardwareSourceName(nxd.hardware);
  if (!nxd.source_digest.empty()) layout["source_digest"] = nxd.source_digest;
}

void AddBundleKeys(Json& layout, const ops::RolloutFacts& rollout) {
  layout["tp"] = rollout.ranks;
  layout["first_rank"] = rollout.first_rank;
  if (const auto& config = rollout.config) {
    layout["tp"] = config->tp;
    layout["flavor"] = rollout::FlavorName(config->flavor);
    layout["bs"] = config->batch_size;
    layout["seq"] = config->sequence_length;
    layout["dtype"] = config->torch_dtype;
    layout["fused_qkv"] = config->fused_qkv;
  }
  if (!rollout.heads) return;
  layout["gqa_strategy"] = models::GqaStrategyName(rollout.heads->strategy);
  layout["padded_heads"] = rollout.heads->padded_query;
  layout["padded_kv_heads"] = rollout.heads->padded_kv;
}

// All keys are always there; null is unknown or has no meaning here.
Json LayoutJson(const Inspection& inspection) {
  Json layout = Json::object();
  for (const char* key :
       {"set_style",      "tp",        "pp",         "vpp",          "ep",
        "kv_multiplier",  "qkv",       "hw",         "hw_source",    "source_digest",
        "style",          "xser",      "flavor",     "bs",           "seq",
        "dtype",          "fused_qkv", "first_rank", "gqa_strategy", "padded_heads",
        "padded_kv_heads"})
    layout[key] = nullptr;
  if (inspection.nxd && inspection.form != ops::Form::kNxdRoot) AddSetKeys(layout, *inspection.nxd);
  if (inspection.rollout) AddBundleKeys(layout, *inspection.rollout);
  return layout;
}

std::string HeadsText(const models::RolloutHeads& heads, const models::ModelConfig& config) {
  const auto padded = [](const char* what, int64_t stored, int64_t real) {
    return stored == real ? fmt::format("{} {}", real, what)
                          : fmt::format("{} {} stored as {}", real, what, stored);
  };
  return fmt::format("{}, {}, {}", models::GqaStrategyName(heads.strategy),
                     padded("query heads", heads.padded_query, config.heads),
                     padded("key/value heads", heads.padded_kv, config.kv_heads));
}

std::string ShardsText(const ops::RolloutFacts& rollout) {
  if (rollout.ranks > 0)
    return fmt::format("ranks {} to {}", rollout.first_rank,
                       rollout.first_rank + rollout.ranks - 1);
  if (!rollout.config || rollout.config->checkpoint_id.empty()) return "none";
  return fmt::format("none; they are loaded from {}", rollout.config->checkpoint_id);
}

}  // namespace

void AddLayout(Facts& facts, const Inspection& inspection) {
  facts.Key("layout", LayoutJson(inspection));
  if (!inspection.nxd) return;
  const ops::NxdFacts& nxd = *inspection.nxd;
  const auto& geometry = nxd.geometry;
  if (inspection.form == ops::Form::kNxdSet) {
    std::string grid = fmt::format("tp {}, pp {}", nxd.location.tp, nxd.location.pp);
    if (nxd.location.ep > 1) grid += fmt::format(", ep {}", nxd.location.ep);
    if (geometry && geometry->vpp > 1) grid += fmt::format(", vpp {}", geometry->vpp);
    facts.Line("grid", grid + (nxd.xser ? ", one file per tensor (xser)" : ""));
  }
  if (geometry) {
    facts.Line("q/k/v", fmt::format("{}, kv multiplier {}", nxd::QkvStyleName(geometry->qkv),
                                    geometry->kv_multiplier));
    facts.Line("hardware", HardwareText(nxd));
    facts.Line("names", std::string(nxd::NameStyleName(geometry->names)));
  }
  if (!nxd.source_digest.empty()) facts.Line("made from", nxd.source_digest);
}

void AddTag(Facts& facts, const Inspection& inspection) {
  const ops::NxdFacts nxd = inspection.nxd.value_or(ops::NxdFacts());
  const auto there = [](bool is) { return is ? "there" : "missing"; };
  if (nxd.location.has_markers)
    facts.Line("tag", fmt::format("{}; markers: checkpoint {}, done {}", nxd.location.tag,
                                  there(nxd.checkpoint), there(nxd.location.finished)));
  const auto read = [&](const nxd::TagFolder& tag) {
    return inspection.form == ops::Form::kNxdSet && tag.name == nxd.location.tag;
  };
  const auto text = [&](const nxd::TagFolder& tag) {
    return tag.name + (tag.finished ? "" : " (not finished)") + (read(tag) ? " (read)" : "");
  };
  facts.Add(nxd.tags.empty() ? "" : "tags", Joined(nxd.tags, text), "tags",
            ArrayOf(nxd.tags, [&](const nxd::TagFolder& tag) -> Json {
              return {{"name", tag.name}, {"finished", tag.finished}, {"read", read(tag)}};
            }));
  Json markers;
  if (nxd.location.has_markers)
    markers = {
        {"tag", nxd.location.tag}, {"checkpoint", nxd.checkpoint}, {"done", nxd.location.finished}};
  facts.Key("markers", std::move(markers));
}

void AddBeside(Facts& facts, const Inspection& inspection) {
  const auto items = inspection.nxd ? inspection.nxd->beside : std::vector<ops::Item>();
  facts.Add(items.empty() ? "" : "beside", Joined(items, ItemText), "beside", ItemsJson(items));
}

void AddBundle(Facts& facts, const Inspection& inspection) {
  const ops::RolloutFacts rollout = inspection.rollout.value_or(ops::RolloutFacts());
  const rollout::NeuronConfig config = rollout.config.value_or(rollout::NeuronConfig());
  if (rollout.config)
    facts.Line("engine", fmt::format("tp {}, batch size {}, sequence length {}, {}, q/k/v {}",
                                     config.tp, config.batch_size, config.sequence_length,
                                     config.torch_dtype, config.fused_qkv ? "fused" : "separate"));
  facts.Key("blobs", ItemsJson(rollout.blobs));
  const auto text = [](const auto& version) {
    return Short(version.first) + " " + Short(version.second);
  };
  facts.Add(
      config.versions.empty() ? "" : "versions", Joined(config.versions, text), "versions",
      ArrayOf(config.versions, [](const auto& version) -> Json {
        return {{"key", EscapeControl(version.first)}, {"value", EscapeControl(version.second)}};
      }));
  if (!config.unsupported.empty())
    facts.Line("settings", Joined(config.unsupported, [](const std::string& s) { return s; }));
  if (rollout.heads) facts.Line("heads", HeadsText(*rollout.heads, *inspection.artifact.config));
  if (inspection.rollout) facts.Line("shards", ShardsText(rollout));
  if (const auto& weights = rollout.weights)
    facts.Add("weights", fmt::format("version {}, {}", weights->serial, Short(weights->label)),
              "weights_version",
              {{"serial", weights->serial}, {"label", EscapeControl(weights->label)}});
  else
    facts.Key("weights_version", {});
  if (inspection.rollout)
    facts.Line("blob", rollout.blobs.empty() ? "missing: no compiled model.pt"
                                             : Joined(rollout.blobs, ItemText));
}

}  // namespace nxdkit::tool
