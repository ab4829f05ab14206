// An inspection as the JSON that man/ckpt-inspect.1 documents.
#include <cmath>

#include "lib/base/text.h"
#include "tools/inspect/inspect_report.h"

namespace nxdkit::ops {
namespace {

using Outcome = LayoutCheck::Outcome;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json Number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json ModelJson(const Artifact& artifact) {
  if (!artifact.config) return {};
  const models::ModelConfig& config = *artifact.config;
  Json json = {{"model_type", config.model_type}, {"config", artifact.config_path}};
  json["architecture"] = config.family == nullptr ? Json() : Json(config.family->architecture);
  const auto shape = [&](const char* key, int64_t value) {
    json[key] = config.family == nullptr ? Json() : Json(value);
  };
  shape("layers", config.layers);
  shape("hidden", config.hidden);
  shape("intermediate", config.intermediate);
  shape("heads", config.heads);
  shape("kv_heads", config.kv_heads);
  shape("head_dim", config.head_dim);
  shape("vocab", config.vocab);
  shape("experts", config.experts);
  shape("expert_intermediate", config.expert_intermediate);
  json["tied"] = config.family == nullptr ? Json() : Json(config.tied);
  json["dtype"] = config.dtype ? Json(Name(*config.dtype)) : Json();
  return json;
}

Json ItemsJson(const std::vector<Item>& items) {
  Json json = Json::array();
  for (const Item& item : items) json.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return json;
}

void AddNxd(Json& layout, const Inspection& inspection) {
  const NxdFacts& facts = *inspection.nxd;
  if (inspection.form == Form::kNxdRoot) return;
  layout["set_style"] = nxd::SetStyleName(facts.style);
  layout["tp"] = facts.tp;
  layout["pp"] = facts.pp;
  layout["ep"] = facts.ep;
  layout["xser"] = facts.xser;
  if (!facts.geometry) return;
  const nxd::Geometry& geometry = *facts.geometry;
  layout["vpp"] = geometry.vpp;
  layout["kv_multiplier"] = geometry.kv_multiplier;
  layout["qkv"] = nxd::QkvStyleName(geometry.qkv);
  layout["style"] = nxd::NameStyleName(geometry.names);
  const bool known =
      facts.hardware != HardwareSource::kUnknown && facts.hardware != HardwareSource::kIrrelevant;
  if (known) layout["hw"] = geometry.hardware == models::Hardware::kTrn2 ? "trn2" : "trn1";
  layout["hw_source"] = HardwareSourceName(facts.hardware);
  if (!facts.source_digest.empty()) layout["source_digest"] = facts.source_digest;
}

void AddRollout(Json& layout, const RolloutFacts& facts) {
  layout["tp"] = facts.ranks;
  layout["first_rank"] = facts.first_rank;
  if (facts.config) {
    layout["tp"] = facts.config->tp;
    layout["flavor"] = rollout::FlavorName(facts.config->flavor);
    layout["bs"] = facts.config->batch_size;
    layout["seq"] = facts.config->sequence_length;
    layout["dtype"] = facts.config->torch_dtype;
    layout["fused_qkv"] = facts.config->fused_qkv;
  }
  if (!facts.heads) return;
  layout["gqa_strategy"] = models::GqaStrategyName(facts.heads->strategy);
  layout["padded_heads"] = facts.heads->padded_query;
  layout["padded_kv_heads"] = facts.heads->padded_kv;
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
  if (inspection.nxd) AddNxd(layout, inspection);
  if (inspection.rollout) AddRollout(layout, *inspection.rollout);
  return layout;
}

Json CheckJson(const LayoutCheck& check) {
  const char* outcome = check.outcome == Outcome::kFits         ? "fits"
                        : check.outcome == Outcome::kDoesNotFit ? "does_not_fit"
                                                                : "not_checked";
  return {{"outcome", outcome},
          {"message", check.message},
          {"parameters", check.parameters},
          {"missing_parameters", check.missing_parameters}};
}

Json DtypesJson(const std::vector<DtypeUse>& uses) {
  Json json = Json::array();
  for (const DtypeUse& use : uses)
    json.push_back({{"dtype", Name(use.dtype)},
                    {"tensors", use.tensors},
                    {"elements", use.elements},
                    {"bytes", use.bytes}});
  return json;
}

Json TagsJson(const Inspection& inspection) {
  Json json = Json::array();
  if (!inspection.nxd) return json;
  for (const nxd::TagFolder& tag : inspection.nxd->tags)
    json.push_back({{"name", tag.name},
                    {"finished", tag.finished},
                    {"read", inspection.form == Form::kNxdSet && tag.name == inspection.nxd->tag}});
  return json;
}

Json MarkersJson(const Inspection& inspection) {
  if (!inspection.nxd || !inspection.nxd->has_markers) return {};
  return {{"tag", inspection.nxd->tag},
          {"checkpoint", inspection.nxd->checkpoint},
          {"done", inspection.nxd->done}};
}

Json WeightFilesJson(const Inspection& inspection) {
  Json json = Json::array();
  for (size_t i = 0; i < inspection.artifact.files.size(); ++i) {
    const TensorFile& file = inspection.artifact.files[i];
    const int64_t tp =
        i < inspection.artifact.ranks.size() ? inspection.artifact.ranks[i].tp_rank : -1;
    const int64_t pp =
        i < inspection.artifact.ranks.size() ? inspection.artifact.ranks[i].pp_rank : -1;
    Json metadata = Json::object();
    for (const auto& [key, value] : file.metadata) metadata[key] = value;
    json.push_back({{"path", file.path},
                    {"format", file.format},
                    {"bytes", file.file_bytes},
                    {"tensors", file.tensors.size()},
                    {"tp_rank", tp < 0 ? Json() : Json(tp)},
                    {"pp_rank", pp < 0 ? Json() : Json(pp)},
                    {"metadata", std::move(metadata)}});
  }
  return json;
}

Json StatisticsJson(const std::optional<TensorStatistics>& statistics) {
  if (!statistics) return {};
  return {{"min", Number(statistics->min)},   {"max", Number(statistics->max)},
          {"mean", Number(statistics->mean)}, {"nan", statistics->nan},
          {"inf", statistics->inf},           {"zeros", statistics->zeros}};
}

Json TensorJson(const Inspection& inspection, TensorPlace place) {
  const StoredTensor& tensor = inspection.tensor(place);
  Json json = Json::object();
  json["name"] = tensor.name;
  json["dtype"] = Name(tensor.dtype);
  json["shape"] = tensor.shape;
  json["bytes"] = TensorBytes(tensor);
  json["weight_file"] = place.file;
  json["file"] = FileOf(inspection, place);
  const bool plain = tensor.storage && tensor.storage->is_file_range();
  json["offset"] = plain ? Json(tensor.storage->file_offset() + tensor.offset) : Json();
  return json;
}

Json TensorsJson(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                 const ListedStatistics& statistics) {
  Json json = Json::array();
  for (size_t i = 0; i < listed.size(); ++i) {
    json.push_back(TensorJson(inspection, listed[i]));
    if (!statistics.empty()) json.back()["stats"] = StatisticsJson(statistics[i]);
  }
  return json;
}

Json RankJson(const Inspection& inspection) {
  if (inspection.shard)
    return {
        {"tp", inspection.shard->tp}, {"pp", inspection.shard->pp}, {"ep", inspection.shard->ep}};
  if (inspection.rank) return {{"tp", *inspection.rank}, {"pp", nullptr}, {"ep", nullptr}};
  return {};
}

// Texts of a header are bytes; what is not UTF-8 is escaped.
Json NeffJson(const NeffFacts& facts) {
  const neff::Header& header = facts.neff.header;
  Json members = Json::array();
  for (const neff::Member& member : facts.listing.members)
    members.push_back({{"name", EscapeControl(member.name)}, {"bytes", member.bytes}});
  return {{"record", facts.record.empty() ? Json() : Json(facts.record)},
          {"offset", facts.neff.offset},
          {"version", {header.major, header.minor}},
          {"package", header.package},
          {"build", EscapeControl(header.build)},
          {"name", EscapeControl(header.name)},
          {"uuid", neff::UuidText(header)},
          {"hash", neff::HashText(header)},
          {"hash_matches", OrNull(facts.hash_matches)},
          {"cores", header.cores},
          {"logical_cores", header.lnc},
          {"features", header.features},
          {"payload", neff::PayloadName(facts.neff.payload)},
          {"bytes", header.data_bytes},
          {"graphs", facts.listed ? Json(neff::CountGraphs(facts.listing)) : Json()},
          {"members", std::move(members)},
          {"cut_short", facts.listing.cut_short.empty() ? Json() : Json(facts.listing.cut_short)}};
}

Json VersionsJson(const std::optional<RolloutFacts>& rollout) {
  Json json = Json::array();
  if (rollout && rollout->config)
    for (const auto& [key, value] : rollout->config->versions)
      json.push_back({{"key", EscapeControl(key)}, {"value", EscapeControl(value)}});
  return json;
}

Json WeightsVersionJson(const std::optional<RolloutFacts>& rollout) {
  if (!rollout || !rollout->weights) return {};
  return {{"serial", rollout->weights->serial}, {"label", EscapeControl(rollout->weights->label)}};
}

Json CacheJson(const std::optional<neff::CacheListing>& cache) {
  if (!cache) return {};
  Json entries = Json::array();
  for (const neff::CacheEntry& entry : cache->entries)
    entries.push_back({{"compiler", entry.compiler},
                       {"module", entry.module},
                       {"state", neff::StateName(entry.state)},
                       {"bytes", entry.bytes}});
  return {{"bytes", cache->bytes}, {"entries", std::move(entries)}};
}

Json AdapterJson(const std::optional<AdapterFacts>& adapter) {
  if (!adapter) return {};
  return {{"type", adapter->type},         {"base_model", adapter->base_model},
          {"rank", OrNull(adapter->rank)}, {"alpha", Number(adapter->alpha)},
          {"targets", adapter->targets},   {"pairs", adapter->pairs}};
}

Json OptimizerJson(const std::optional<OptimizerFacts>& optimizer) {
  if (!optimizer) return {};
  return {{"dp", optimizer->dp},      {"tp", optimizer->tp},       {"pp", optimizer->pp},
          {"ep", optimizer->ep},      {"files", optimizer->files}, {"missing", optimizer->missing},
          {"zero1", optimizer->zero1}};
}

Json DeltaJson(const std::optional<DeltaFacts>& delta) {
  if (!delta) return {};
  return {{"coding", delta->coding == delta::Coding::kUlp ? "ulp" : "raw"},
          {"parameters", delta->parameters},
          {"elements", delta->elements},
          {"changed", delta->changed},
          {"dense_bytes", delta->dense_bytes},
          {"payload_bytes", delta->payload_bytes},
          {"base_digest", delta->base},
          {"result_digest", delta->result}};
}

Json TrainerJson(const std::optional<TrainerFacts>& trainer) {
  if (!trainer) return {};
  Json settings = Json::array();
  for (const auto& [key, value] : trainer->settings)
    settings.push_back({{"key", key}, {"value", value}});
  return {{"step", OrNull(trainer->step)},
          {"epoch", Number(trainer->epoch)},
          {"settings", std::move(settings)},
          {"metadata", trainer->metadata}};
}

}  // namespace

Json InspectionJson(const Inspection& inspection, const std::vector<TensorPlace>& listed,
                    const ListedStatistics& statistics) {
  Json json = {{"path", inspection.artifact.path},
               {"format", FormName(inspection.form)},
               {"description", inspection.description},
               {"model", ModelJson(inspection.artifact)},
               {"parameters", inspection.parameters},
               {"parameters_are_logical", inspection.parameters_are_logical},
               {"bytes", inspection.bytes},
               {"files", inspection.files},
               {"tensor_count", inspection.tensors},
               {"dtypes", DtypesJson(inspection.dtypes)},
               {"rank", RankJson(inspection)},
               {"layout", LayoutJson(inspection)},
               {"layout_check", CheckJson(inspection.layout)},
               {"tags", TagsJson(inspection)},
               {"markers", MarkersJson(inspection)},
               {"entries", inspection.entries},
               {"weight_files", WeightFilesJson(inspection)}};
  json["beside"] = ItemsJson(inspection.nxd ? inspection.nxd->beside : std::vector<Item>());
  json["blobs"] = ItemsJson(inspection.rollout ? inspection.rollout->blobs : std::vector<Item>());
  json["versions"] = VersionsJson(inspection.rollout);
  json["weights_version"] = WeightsVersionJson(inspection.rollout);
  json["records"] = ItemsJson(inspection.records);
  Json neffs = Json::array();
  for (const NeffFacts& facts : inspection.neffs) neffs.push_back(NeffJson(facts));
  json["neffs"] = std::move(neffs);
  json["cache"] = CacheJson(inspection.cache);
  json["adapter"] = AdapterJson(inspection.adapter);
  json["optimizer"] = OptimizerJson(inspection.optimizer);
  json["trainer"] = TrainerJson(inspection.trainer);
  json["delta"] = DeltaJson(inspection.delta);
  Json references = Json::array();
  for (const TensorReference& reference : inspection.references)
    references.push_back({{"name", reference.name}, {"file", reference.file}});
  json["references"] = std::move(references);
  json["tensors"] = TensorsJson(inspection, listed, statistics);
  return json;
}

}  // namespace nxdkit::ops
