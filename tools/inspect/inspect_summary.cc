// An inspection's summary as lines for people.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "lib/base/text.h"
#include "tools/inspect/inspect_report.h"

namespace nxdkit::ops {
namespace {

constexpr size_t kShownItems = 8;    // of lists inside one line
constexpr size_t kShownValue = 200;  // bytes of a text from a file

using Outcome = LayoutCheck::Outcome;

class Lines {
 public:
  void Add(std::string_view label, std::string_view text) {
    text_ += fmt::format("  {:<12}{}\n", label, EscapeControl(text));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string Large(uint64_t count) {
  if (count >= 1'000'000'000)
    return fmt::format("{} ({:.2f} billion)", count, static_cast<double>(count) / 1e9);
  if (count >= 1'000'000)
    return fmt::format("{} ({:.1f} million)", count, static_cast<double>(count) / 1e6);
  return fmt::format("{}", count);
}

std::string Bytes(uint64_t bytes) {
  return bytes < 1000 ? HumanBytes(bytes) : fmt::format("{} ({} bytes)", HumanBytes(bytes), bytes);
}

// "a, b, c and 12 more"
template <typename List, typename Text>
std::string Joined(const List& list, const Text& text) {
  std::string out;
  size_t shown = 0;
  for (const auto& item : list) {
    if (shown == kShownItems) return out + fmt::format(" and {} more", list.size() - shown);
    out += (shown++ == 0 ? "" : ", ") + text(item);
  }
  return out;
}

std::string ItemText(const Item& item) {
  return fmt::format("{} ({})", item.name, HumanBytes(item.bytes));
}

void AddModel(Lines& lines, const Inspection& inspection) {
  const auto& config = inspection.artifact.config;
  if (!config) return;
  const std::string type =
      config->model_type.empty() ? "not said by the config" : config->model_type;
  if (config->family == nullptr) return lines.Add("family", type + " (no parameter table)");
  lines.Add("family",
            fmt::format("{} ({})", config->family->model_type, config->family->architecture));
  lines.Add(
      "shape",
      fmt::format("{} layers, hidden {}, intermediate {}, {} heads of {}, {} key/value heads, "
                  "vocabulary {}{}{}",
                  config->layers, config->hidden, config->intermediate, config->heads,
                  config->head_dim, config->kv_heads, config->vocab,
                  config->experts > 0 ? fmt::format(", {} experts of {}", config->experts,
                                                    config->expert_intermediate)
                                      : "",
                  config->tied ? ", tied embeddings" : ""));
}

void AddCounts(Lines& lines, const Inspection& inspection) {
  lines.Add("parameters", Large(inspection.parameters) +
                              (inspection.parameters_are_logical ? "" : " stored elements"));
  lines.Add("bytes", Bytes(inspection.bytes));
  lines.Add("files", fmt::format("{}", inspection.files));
  lines.Add("tensors", fmt::format("{}", inspection.tensors));
  if (inspection.dtypes.empty()) return;
  lines.Add("dtypes", Joined(inspection.dtypes, [](const DtypeUse& use) {
              return fmt::format("{} in {} ({})", Name(use.dtype), use.tensors,
                                 HumanBytes(use.bytes));
            }));
}

std::string HardwareText(const NxdFacts& facts) {
  const bool trn2 = facts.geometry->hardware == models::Hardware::kTrn2;
  const char* name = trn2 ? "trn2" : "trn1";
  switch (facts.hardware) {
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
  return facts.replicas == nxd::ReplicaOrder::kTiled
             ? "not known (copies of key heads are tiled: trn1, or trn2 from a faulty converter)"
             : "not known";
}

void AddSet(Lines& lines, const Inspection& inspection) {
  const NxdFacts& facts = *inspection.nxd;
  if (inspection.form == Form::kNxdSet) {
    std::string grid = fmt::format("tp {}, pp {}", facts.tp, facts.pp);
    if (facts.ep > 1) grid += fmt::format(", ep {}", facts.ep);
    if (facts.geometry && facts.geometry->vpp > 1)
      grid += fmt::format(", vpp {}", facts.geometry->vpp);
    lines.Add("grid", grid + (facts.xser ? ", one file per tensor (xser)" : ""));
  }
  if (facts.geometry) {
    lines.Add("q/k/v", fmt::format("{}, kv multiplier {}", nxd::QkvStyleName(facts.geometry->qkv),
                                   facts.geometry->kv_multiplier));
    lines.Add("hardware", HardwareText(facts));
    lines.Add("names", nxd::NameStyleName(facts.geometry->names));
  }
  if (!facts.source_digest.empty()) lines.Add("made from", facts.source_digest);
  if (facts.has_markers)
    lines.Add("tag", fmt::format("{}; markers: checkpoint {}, done {}", facts.tag,
                                 facts.checkpoint ? "there" : "missing",
                                 facts.done ? "there" : "missing"));
  if (!facts.tags.empty())
    lines.Add("tags", Joined(facts.tags, [&](const nxd::TagFolder& tag) {
                return tag.name + (tag.finished ? "" : " (not finished)") +
                       (tag.name == facts.tag && inspection.form == Form::kNxdSet ? " (read)" : "");
              }));
  if (!facts.beside.empty()) lines.Add("beside", Joined(facts.beside, ItemText));
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

void AddBundle(Lines& lines, const Inspection& inspection) {
  const RolloutFacts& facts = *inspection.rollout;
  if (facts.config) {
    const rollout::NeuronConfig& config = *facts.config;
    lines.Add("engine", fmt::format("tp {}, batch size {}, sequence length {}, {}, q/k/v {}",
                                    config.tp, config.batch_size, config.sequence_length,
                                    config.torch_dtype, config.fused_qkv ? "fused" : "separate"));
    if (!config.versions.empty())
      lines.Add("versions", Joined(config.versions, [](const auto& version) {
                  return version.first.substr(0, kShownValue) + " " +
                         version.second.substr(0, kShownValue);
                }));
    if (!config.unsupported.empty())
      lines.Add("settings", Joined(config.unsupported, [](const std::string& s) { return s; }));
  }
  if (facts.heads) lines.Add("heads", HeadsText(*facts.heads, *inspection.artifact.config));
  const std::string from =
      facts.config && !facts.config->checkpoint_id.empty()
          ? fmt::format("; they are loaded from {}", facts.config->checkpoint_id)
          : std::string();
  lines.Add("shards", facts.ranks == 0 ? "none" + from
                                       : fmt::format("ranks {} to {}", facts.first_rank,
                                                     facts.first_rank + facts.ranks - 1));
  if (facts.weights)
    lines.Add("weights", fmt::format("version {}, {}", facts.weights->serial,
                                     facts.weights->label.substr(0, kShownValue)));
  lines.Add("blob",
            facts.blobs.empty() ? "missing: no compiled model.pt" : Joined(facts.blobs, ItemText));
}

std::string NeffText(const NeffFacts& facts) {
  const neff::Header& header = facts.neff.header;
  const char* hash = !facts.hash_matches   ? ""
                     : *facts.hash_matches ? ", hash right"
                                           : ", hash WRONG";
  const std::string members =
      facts.listed ? fmt::format(" in {} members, {} graphs", facts.listing.members.size(),
                                 neff::CountGraphs(facts.listing))
                   : "";
  return fmt::format("{}offset {}: NEFF {}.{}, package {}, built by {}, {}{}, {} cores, uuid {}{}",
                     facts.record.empty() ? "" : facts.record + ", ", facts.neff.offset,
                     header.major, header.minor, header.package, header.build,
                     HumanBytes(header.data_bytes), members, header.cores, neff::UuidText(header),
                     hash);
}

void AddCompiled(Lines& lines, const Inspection& inspection) {
  for (size_t i = 0; i < inspection.neffs.size() && i < kShownItems; ++i) {
    const NeffFacts& facts = inspection.neffs[i];
    lines.Add("neff", NeffText(facts));
    if (!facts.listing.members.empty())
      lines.Add("members", Joined(facts.listing.members, [](const neff::Member& member) {
                  return ItemText({member.name.substr(0, kShownValue), member.bytes});
                }));
  }
  if (inspection.neffs.size() > kShownItems)
    lines.Add("neff", fmt::format("and {} more", inspection.neffs.size() - kShownItems));
  if (!inspection.cache) return;
  struct Count {
    uint64_t entries = 0, bytes = 0;
  };
  std::map<std::string_view, Count> states;
  for (const neff::CacheEntry& entry : inspection.cache->entries) {
    Count& count = states[neff::StateName(entry.state)];
    ++count.entries;
    count.bytes += entry.bytes;
  }
  lines.Add("entries", fmt::format("{} ({})", inspection.cache->entries.size(),
                                   HumanBytes(inspection.cache->bytes)));
  for (const auto& [name, count] : states)
    lines.Add(name, fmt::format("{} ({})", count.entries, HumanBytes(count.bytes)));
}

void AddTraining(Lines& lines, const Inspection& inspection) {
  if (const auto& adapter = inspection.adapter) {
    std::string text = adapter->type.empty() ? "type not said" : adapter->type;
    if (adapter->rank) text += fmt::format(", rank {}", *adapter->rank);
    if (adapter->alpha) text += fmt::format(", alpha {}", *adapter->alpha);
    lines.Add("adapter", fmt::format("{}, {} pairs of A and B", text, adapter->pairs));
    if (!adapter->base_model.empty())
      lines.Add("base model", adapter->base_model.substr(0, kShownValue));
    if (!adapter->targets.empty())
      lines.Add("targets", Joined(adapter->targets, [](const std::string& target) {
                  return target.substr(0, kShownValue);
                }));
  }
  if (const auto& optimizer = inspection.optimizer)
    lines.Add("grid", fmt::format("dp {}, tp {}, pp {}{}; {} files, {} missing", optimizer->dp,
                                  optimizer->tp, optimizer->pp,
                                  optimizer->ep > 1 ? fmt::format(", ep {}", optimizer->ep) : "",
                                  optimizer->files, optimizer->missing));
  if (const auto& trainer = inspection.trainer) {
    if (trainer->step)
      lines.Add("trainer",
                fmt::format("step {}{}", *trainer->step,
                            trainer->epoch ? fmt::format(", epoch {}", *trainer->epoch) : ""));
    if (!trainer->settings.empty())
      lines.Add("trn_config", Joined(trainer->settings, [](const auto& setting) {
                  return setting.first.substr(0, kShownValue) + " " + setting.second;
                }));
  }
}

void AddDelta(Lines& lines, const DeltaFacts& delta) {
  lines.Add("changed", fmt::format("{} of {} elements in {} parameters", delta.changed,
                                   delta.elements, delta.parameters));
  lines.Add("payload", fmt::format("{} of {} dense; coding {}", HumanBytes(delta.payload_bytes),
                                   HumanBytes(delta.dense_bytes),
                                   delta.coding == delta::Coding::kUlp ? "ulp" : "raw"));
  lines.Add("base", delta.base);
  lines.Add("result", delta.result);
}

std::string LayoutText(const LayoutCheck& layout) {
  switch (layout.outcome) {
    case Outcome::kNotChecked:
      return "not checked: " + layout.message;
    case Outcome::kDoesNotFit:
      return "does not fit: " + layout.message;
    case Outcome::kFits:
      break;
  }
  if (layout.missing_parameters > 0) return "each tensor has its place; " + layout.message;
  return fmt::format("each tensor has its place; all {} parameters are here", layout.parameters);
}

void AddContents(Lines& lines, const Inspection& inspection) {
  if (const auto& shard = inspection.shard)
    lines.Add("rank", fmt::format("tp {}, pp {}{}", shard->tp, shard->pp,
                                  shard->ep > 0 ? fmt::format(", ep {}", shard->ep) : ""));
  if (!inspection.artifact.files.empty() && !inspection.artifact.files.front().metadata.empty())
    lines.Add("metadata", Joined(inspection.artifact.files.front().metadata, [](const auto& pair) {
                return fmt::format("{}={}", pair.first.substr(0, kShownValue),
                                   pair.second.substr(0, kShownValue));
              }));
  if (!inspection.entries.empty())
    lines.Add("also holds", Joined(inspection.entries, [](const std::string& name) {
                return name.substr(0, kShownValue);
              }));
  if (!inspection.records.empty()) lines.Add("records", Joined(inspection.records, ItemText));
  if (!inspection.references.empty())
    lines.Add("references", Joined(inspection.references, [](const TensorReference& reference) {
                return fmt::format("{} in {}", reference.name, reference.file);
              }));
}

}  // namespace

std::string SummaryText(const Inspection& inspection) {
  Lines lines;
  lines.Add("path", inspection.artifact.path);
  AddModel(lines, inspection);
  AddCounts(lines, inspection);
  if (inspection.nxd) AddSet(lines, inspection);
  if (inspection.rollout) AddBundle(lines, inspection);
  AddCompiled(lines, inspection);
  AddTraining(lines, inspection);
  if (inspection.delta) AddDelta(lines, *inspection.delta);
  AddContents(lines, inspection);
  lines.Add("layout", LayoutText(inspection.layout));
  return EscapeControl(inspection.description) + "\n" + lines.Take();
}

}  // namespace nxdkit::ops
