#include "tools/inspect/report.h"

#include "formats/kinds/table.h"
#include "lib/base/text.h"
#include "tools/inspect/compiled_facts.h"

namespace nxdkit::tool {
namespace {

using kinds::ArrayOf;
using kinds::Fact;
using kinds::Facts;
using kinds::FiniteOrNull;
using kinds::ItemsJson;
using kinds::ItemText;
using kinds::Joined;
using kinds::OrNull;
using kinds::Short;
using ops::Inspection;
using Outcome = ops::LayoutCheck::Outcome;

Json ModelJson(const artifact::Artifact& artifact) {
  const models::ModelConfig& config = *artifact.config;
  const auto known = [&](const auto& value) { return config.family ? Json(value) : Json(); };
  return {{"model_type", config.model_type},
          {"config", artifact.config_path},
          {"architecture", config.family ? Json(config.family->architecture) : Json()},
          {"layers", known(config.layers)},
          {"hidden", known(config.hidden)},
          {"intermediate", known(config.intermediate)},
          {"heads", known(config.heads)},
          {"kv_heads", known(config.kv_heads)},
          {"head_dim", known(config.head_dim)},
          {"vocab", known(config.vocab)},
          {"experts", known(config.experts)},
          {"expert_intermediate", known(config.expert_intermediate)},
          {"tied", known(config.tied)},
          {"dtype", config.dtype ? Json(Name(*config.dtype)) : Json()}};
}

void AddFileSystem(Facts& facts, const Mount& mount) {
  const std::vector<std::string> lacks = Lacks(mount);
  const bool shared = IsShared(mount);
  facts.Add("file system", FileSystemText(mount), "file_system",
            {{"type", mount.type},
             {"source", mount.source},
             {"mounted_at", mount.folder},
             {"options", mount.options},
             {"shared", shared},
             {"lacks", lacks}});
}

void AddModel(Facts& facts, const artifact::Artifact& artifact) {
  if (!artifact.config) return facts.Key("model", {});
  const models::ModelConfig& config = *artifact.config;
  const std::string type = config.model_type.empty() ? "not in the config" : config.model_type;
  if (!config.quant_method.empty())
    facts.Line("quantised", EscapeControl(config.quant_method) + ", as its configuration says");
  if (!config.family)
    return facts.Add("family", type + " (no parameter table: nothing is proved)", "model",
                     ModelJson(artifact));
  facts.Add("family",
            fmt::format("{} ({})", config.family->model_type, config.family->architecture), "model",
            ModelJson(artifact));
  // Heads of several kinds have no single size.
  const std::string of = config.head_dim > 0 ? fmt::format(" of {}", config.head_dim) : "";
  facts.Line("shape", fmt::format("{}, hidden {}, intermediate {}, {}{}, {}, "
                                  "vocabulary {}{}{}",
                                  Counted(config.layers, "layer"), config.hidden,
                                  config.intermediate, Counted(config.heads, "head"), of,
                                  Counted(config.kv_heads, "key/value head"), config.vocab,
                                  config.experts > 0
                                      ? fmt::format(", {} of {}", Counted(config.experts, "expert"),
                                                    config.expert_intermediate)
                                      : "",
                                  config.tied ? ", tied embeddings" : ""));
}

void AddCounts(Facts& facts, const Inspection& inspection) {
  const bool logical = inspection.parameters_are_logical;
  facts.Add(
      "parameters",
      logical ? Grouped(inspection.parameters) : Counted(inspection.parameters, "stored element"),
      "parameters", inspection.parameters);
  facts.Key("parameters_are_logical", logical);
  facts.Add("bytes", HumanBytes(inspection.bytes), "bytes", inspection.bytes);
  facts.Add("files", Grouped(inspection.files), "files", inspection.files);
  facts.Add("tensors", Grouped(inspection.tensors), "tensor_count", inspection.tensors);
  const auto text = [](const ops::DtypeUse& use) {
    return fmt::format("{} in {} ({})", Name(use.dtype), Grouped(use.tensors),
                       HumanBytes(use.bytes));
  };
  facts.Add(inspection.dtypes.empty() ? "" : "dtypes", Joined(inspection.dtypes, text), "dtypes",
            ArrayOf(inspection.dtypes, [](const ops::DtypeUse& use) -> Json {
              return {{"dtype", Name(use.dtype)},
                      {"tensors", use.tensors},
                      {"elements", use.elements},
                      {"bytes", use.bytes}};
            }));
}

Json RankJson(const std::optional<kinds::FileRank>& rank) {
  if (!rank) return {};
  return {{"tp", rank->tp}, {"pp", OrNull(rank->pp)}, {"ep", OrNull(rank->ep)}};
}

Json WeightFilesJson(const artifact::Artifact& artifact) {
  Json json = Json::array();
  for (size_t i = 0; i < artifact.files.size(); ++i) {
    const TensorFile& file = artifact.files[i];
    const LayoutFile ranks = i < artifact.ranks.size() ? artifact.ranks[i] : LayoutFile();
    const auto rank = [](int64_t number) { return number < 0 ? Json() : Json(number); };
    Json metadata = Json::object();
    for (const auto& [key, value] : file.metadata) metadata[key] = value;
    json.push_back({{"path", file.path},
                    {"format", file.format},
                    {"bytes", file.file_bytes},
                    {"tensors", file.tensors.size()},
                    {"tp_rank", rank(ranks.tp_rank)},
                    {"pp_rank", rank(ranks.pp_rank)},
                    {"metadata", std::move(metadata)}});
  }
  return json;
}

Json CheckJson(const ops::LayoutCheck& check) {
  return {{"outcome", check.outcome == Outcome::kFits         ? "fits"
                      : check.outcome == Outcome::kDoesNotFit ? "does_not_fit"
                                                              : "not_checked"},
          {"message", check.message},
          {"parameters", check.parameters},
          {"missing_parameters", check.missing_parameters},
          {"aliases", check.aliases},
          {"ignored", check.ignored},
          {"carried", check.carried}};
}

std::string CheckText(const ops::LayoutCheck& check) {
  if (check.outcome == Outcome::kNotChecked) return "not checked: " + check.message;
  if (check.outcome == Outcome::kDoesNotFit) return "does not fit: " + check.message;
  if (check.missing_parameters > 0) return "each tensor has its place; " + check.message;
  return fmt::format("each tensor has its place; all {} are here",
                     Counted(check.parameters, "parameter"));
}

// How much of the stored data the family's text explains.
std::string CoverageText(const Inspection& inspection) {
  const ops::LayoutCheck& check = inspection.layout;
  const models::Family& family = *inspection.artifact.config->family;
  return fmt::format("{} mapped, {}, {} ignored, {} carried, by {} {} (sha256 {})",
                     check.parameters - check.missing_parameters, Counted(check.aliases, "alias"),
                     check.ignored, check.carried,
                     family.origin.empty() ? "the family" : family.origin + ", family",
                     family.model_type, family.digest.substr(0, 12));
}

// --- what training leaves beside whole models

void AddAdapter(Facts& facts, const std::optional<ops::AdapterFacts>& adapter) {
  if (!adapter) return facts.Key("adapter", {});
  std::string text = adapter->type.empty() ? "unknown type" : adapter->type;
  if (adapter->rank) text += fmt::format(", rank {}", *adapter->rank);
  if (adapter->alpha) text += fmt::format(", alpha {}", *adapter->alpha);
  facts.Add("adapter", fmt::format("{}, {} of A and B", text, Counted(adapter->pairs, "pair")),
            "adapter",
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
            fmt::format("dp {}, tp {}, pp {}{}; {}, {} missing", o.dp, o.tp, o.pp,
                        o.ep > 1 ? fmt::format(", ep {}", o.ep) : "", Counted(o.files, "file"),
                        o.missing),
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

// The contents of the files besides the weights.
void AddContents(Facts& facts, const Inspection& inspection) {
  if (const auto& rank = inspection.rank; rank && rank->pp)
    facts.Line("rank", fmt::format("tp {}, pp {}{}", rank->tp, *rank->pp,
                                   rank->ep > 0 ? fmt::format(", ep {}", *rank->ep) : ""));
  if (const auto& files = inspection.artifact.files; !files.empty() && !files[0].metadata.empty())
    facts.Line("metadata", Joined(files[0].metadata, [](const auto& pair) {
                 return Short(pair.first) + "=" + Short(pair.second);
               }));
  if (!inspection.entries.empty()) facts.Line("also holds", Joined(inspection.entries, Short));
  if (!inspection.records.empty()) facts.Line("records", Joined(inspection.records, ItemText));
  const auto text = [](const kinds::TensorReference& reference) {
    return fmt::format("{} in {}", reference.name, reference.file);
  };
  facts.Add(inspection.references.empty() ? "" : "references", Joined(inspection.references, text),
            "references",
            ArrayOf(inspection.references, [](const kinds::TensorReference& reference) -> Json {
              return {{"name", reference.name}, {"file", reference.file}};
            }));
}

}  // namespace

std::string FileSystemText(const Mount& mount) {
  const std::vector<std::string> lacks = Lacks(mount);
  std::string text =
      fmt::format("{} {}", mount.type.empty() ? "unknown" : mount.type, Short(mount.source));
  if (IsShared(mount)) text += "; other machines may have it";
  if (!lacks.empty()) text += "; lacks " + Joined(lacks, Short);
  return text;
}

// Lines and keys have the same order, with a few exceptions: those are two rows.
kinds::Facts FactsOf(const Inspection& inspection) {
  kinds::KindFacts kinds;
  for (const kinds::Kind* kind : kinds::Kinds())
    if (kind->add_facts) kind->add_facts(kinds, inspection);
  Facts facts;
  facts.Add("path", inspection.artifact.path, "path", inspection.artifact.path);
  facts.Key("format", inspection.form);
  facts.Key("description", inspection.description);
  AddFileSystem(facts, inspection.mount);
  AddModel(facts, inspection.artifact);
  AddCounts(facts, inspection);
  facts.Key("rank", RankJson(inspection.rank));
  facts.Key("layout", std::move(kinds.layout));
  facts.Key("layout_check", CheckJson(inspection.layout));
  facts.Append(kinds.first);
  facts.Key("entries", inspection.entries);
  facts.Key("weight_files", WeightFilesJson(inspection.artifact));
  facts.Append(kinds.files);
  facts.Key("records", ItemsJson(inspection.records));
  AddNeffs(facts, inspection.neffs);
  AddCache(facts, inspection.cache);
  AddAdapter(facts, inspection.adapter);
  AddOptimizer(facts, inspection.optimizer);
  AddTrainer(facts, inspection.trainer);
  facts.Append(kinds.last);
  AddContents(facts, inspection);
  facts.Line("layout", CheckText(inspection.layout));
  if (inspection.layout.outcome == Outcome::kFits) facts.Line("coverage", CoverageText(inspection));
  return facts;
}

std::string SummaryText(const Inspection& inspection) {
  std::string text = EscapeControl(inspection.description) + "\n";
  for (const Fact& fact : FactsOf(inspection).rows)
    if (!fact.label.empty())
      text += fmt::format("  {:<12}{}\n", fact.label, EscapeControl(fact.text));
  return text;
}

Json SummaryJson(const Inspection& inspection) {
  Json json = Json::object();
  for (Fact& fact : FactsOf(inspection).rows)
    if (!fact.key.empty()) json[fact.key] = std::move(fact.value);
  return json;
}

}  // namespace nxdkit::tool
