#include "formats/kinds/nxd/facts_nxd.h"

#include <algorithm>

#include "formats/kinds/facts.h"
#include "formats/kinds/nxd/nxd_state.h"
#include "formats/kinds/table.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::kinds {
namespace {

// NxD keeps these in a tag folder next to the weights.
constexpr const char* kBeside[] = {"optim", "scheduler.pt", "user_content.pt"};

struct HardwareSourceRow {
  const char* name;
  const char* after_the_name;  // of the hardware, for people
};
const HardwareSourceRow& SourceRow(HardwareSource source) {
  static constexpr HardwareSourceRow kRows[] = {
      {"unknown", ""},
      {"irrelevant", ""},
      {"options", " by the options"},
      {"sidecar", " by nxdkit.json"},
      {"record", " by optimum-neuron's metadata"},
      {"replicas", ", read off the copies of the key heads"}};
  return kRows[static_cast<size_t>(source)];
}

std::string TagCount(size_t tags) { return Counted(tags, "tag"); }

// The bytes of all files below a folder; for a link to a file, of that file.
Result<uint64_t> BytesBelow(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<TreeEntry> entries, ListTree(folder));
  uint64_t bytes = 0;
  for (const TreeEntry& entry : entries) {
    NXDKIT_ASSIGN(const uint64_t each, BytesOfFile(JoinPath(folder, entry.path)));
    bytes += each;
  }
  return bytes;
}

// Adds the facts that names give.
Status DescribeSet(Survey& survey, NxdFacts& facts) {
  const nxd::ShardSet& set = NxdStateOf(survey.artifact)->set;
  const nxd::SetLocation& location = set.location;
  facts.read = true;
  facts.location = location;
  facts.xser = location.style == nxd::SetStyle::kV2Xser || location.style == nxd::SetStyle::kV1Xser;
  survey.entries = set.skipped;
  if (!location.has_markers) return OkStatus();
  NXDKIT_ASSIGN(facts.checkpoint, HasFile(location.tag_folder, "checkpoint"));
  for (const char* name : kBeside) {
    const std::string path = JoinPath(location.tag_folder, name);
    NXDKIT_ASSIGN(const PathInfo info, LookAt(path));
    if (info.kind == PathKind::kMissing) continue;
    const bool folder = info.kind == PathKind::kFolder;
    NXDKIT_ASSIGN(const uint64_t bytes, folder ? BytesBelow(path) : BytesOfFile(path));
    facts.beside.push_back({std::string(name) + (folder ? "/" : ""), bytes});
  }
  return OkStatus();
}

// An adapter's shards are a set like a model's; only the names differ.
bool AnyLora(const Artifact& artifact) {
  for (const TensorFile& file : artifact.files)
    for (const StoredTensor& tensor : file.tensors)
      if (tensor.name.find(".lora_") != std::string::npos) return true;
  return false;
}

bool AnyFinished(const std::vector<nxd::TagFolder>& tags) {
  return std::ranges::any_of(tags, &nxd::TagFolder::finished);
}

// A root with no tag asked for and none to be read: none is finished, or none is known to be the
// newest.
void DescribeRootAlone(Survey& survey, const std::string& path,
                       const std::vector<nxd::TagFolder>& tags, const Error& error) {
  survey.form = "nxd_root";
  survey.not_checked = "no tag is read";
  survey.description = fmt::format(
      "NxD checkpoint folder of {}, {}", TagCount(tags.size()),
      AnyFinished(tags) ? "none of them is certain to be the newest" : "none of them is finished");
  survey.artifact.kind = &kNxd;
  survey.artifact.path = path;
  survey.warnings.push_back(error.ToString() + "; " + error.hint());
}

HardwareSource SourceOf(const NxdState& state, const NxdLayout& layout, const InputHints& hints) {
  if (layout.geometry.kv_multiplier == 1) return HardwareSource::kIrrelevant;
  if (hints.Has("hw")) return HardwareSource::kOptions;
  if (state.sidecar && state.sidecar->claims.hardware) return HardwareSource::kSidecar;
  if (state.mp_record && state.mp_record->claims.hardware) return HardwareSource::kRecord;
  if (layout.replicas == nxd::ReplicaOrder::kAdjacent) return HardwareSource::kReplicas;
  return HardwareSource::kUnknown;
}

std::string HardwareText(const NxdFacts& nxd) {
  if (nxd.hardware == HardwareSource::kIrrelevant) return "trn1 and trn2 alike";
  if (nxd.hardware != HardwareSource::kUnknown)
    return std::string(models::HardwareName(nxd.geometry->hardware)) +
           SourceRow(nxd.hardware).after_the_name;
  return nxd.replicas == nxd::ReplicaOrder::kTiled
             ? "not known (copies of key heads are tiled: trn1, or trn2 from a faulty converter)"
             : "not known";
}

void AddSetKeys(Json& layout, const NxdFacts& nxd) {
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
  if (known) layout["hw"] = models::HardwareName(nxd.geometry->hardware);
  layout["hw_source"] = SourceRow(nxd.hardware).name;
  if (!nxd.source_digest.empty()) layout["source_digest"] = nxd.source_digest;
}

void AddGrid(Facts& rows, const NxdFacts& nxd) {
  const auto& geometry = nxd.geometry;
  if (nxd.read) {
    std::string grid = fmt::format("tp {}, pp {}", nxd.location.tp, nxd.location.pp);
    if (nxd.location.ep > 1) grid += fmt::format(", ep {}", nxd.location.ep);
    if (geometry && geometry->vpp > 1) grid += fmt::format(", vpp {}", geometry->vpp);
    rows.Line("grid", grid + (nxd.xser ? ", one file per tensor (xser)" : ""));
  }
  if (geometry) {
    rows.Line("q/k/v", fmt::format("{}, kv multiplier {}", nxd::QkvStyleName(geometry->qkv),
                                   geometry->kv_multiplier));
    rows.Line("hardware", HardwareText(nxd));
    rows.Line("names", std::string(nxd::NameStyleName(geometry->names)));
  }
  if (!nxd.source_digest.empty()) rows.Line("made from", nxd.source_digest);
}

void AddTags(Facts& rows, const NxdFacts& nxd) {
  const auto there = [](bool is) { return is ? "there" : "missing"; };
  if (nxd.location.has_markers)
    rows.Line("tag", fmt::format("{}; markers: checkpoint {}, done {}", nxd.location.tag,
                                 there(nxd.checkpoint), there(nxd.location.finished)));
  const auto read = [&](const nxd::TagFolder& tag) {
    return nxd.read && tag.name == nxd.location.tag;
  };
  const auto text = [&](const nxd::TagFolder& tag) {
    return tag.name + (tag.finished ? "" : " (not finished)") + (read(tag) ? " (read)" : "");
  };
  rows.Add(nxd.tags.empty() ? "" : "tags", Joined(nxd.tags, text), "tags",
           ArrayOf(nxd.tags, [&](const nxd::TagFolder& tag) -> Json {
             return {{"name", tag.name}, {"finished", tag.finished}, {"read", read(tag)}};
           }));
  Json markers;
  if (nxd.location.has_markers)
    markers = {
        {"tag", nxd.location.tag}, {"checkpoint", nxd.checkpoint}, {"done", nxd.location.finished}};
  rows.Key("markers", std::move(markers));
}

}  // namespace

Status DescribeNxd(Survey& survey, const std::string& path, const InputHints& hints) {
  const auto facts = std::make_shared<NxdFacts>();
  survey.facts = facts;
  if (hints.memory) {
    NXDKIT_TRY(SurveyWhole(survey, kNxd, path, hints));
    survey.description = "NxD training shards in memory";
    return DescribeSet(survey, *facts);
  }
  NXDKIT_ASSIGN(facts->tags, nxd::ListTags(path, survey.artifact.look));
  const Result<nxd::SetLocation> located =
      nxd::Locate(path, hints.Text("tag"), survey.artifact.look);
  const bool undecided =
      !located.ok() && (!AnyFinished(facts->tags) || located.error().code() == Errc::kUsage);
  if (undecided && !facts->tags.empty() && !hints.Has("tag")) {
    DescribeRootAlone(survey, path, facts->tags, located.error());
    return OkStatus();
  }
  NXDKIT_TRY(SurveyWhole(survey, kNxd, path, hints));
  NXDKIT_TRY(DescribeSet(survey, *facts));
  if (AnyLora(survey.artifact))
    survey.not_checked = "the shards of a LoRA adapter, which is not a whole model";
  survey.description =
      fmt::format("NxD training shard set, style {}", nxd::SetStyleName(facts->location.style));
  if (!facts->tags.empty())
    survey.description =
        fmt::format("NxD checkpoint folder of {}; the tag {} is an {}",
                    TagCount(facts->tags.size()), facts->location.tag, survey.description);
  return OkStatus();
}

void DescribeNxdLayout(Survey& survey, const BoundArtifact& bound, const InputHints& hints) {
  auto& facts = static_cast<NxdFacts&>(*survey.facts);
  const NxdState& state = *NxdStateOf(bound.artifact);
  const NxdLayout& layout = *NxdLayoutOf(bound);
  facts.geometry = layout.geometry;
  facts.replicas = layout.replicas;
  facts.hardware = SourceOf(state, layout, hints);
  if (state.sidecar) facts.source_digest = state.sidecar->source_digest;
}

void AddNxdFacts(KindFacts& facts, const Survey& survey) {
  facts.LayoutKeys({"set_style", "tp", "pp", "vpp", "ep", "kv_multiplier", "qkv", "hw", "hw_source",
                    "source_digest", "style", "xser"});
  const NxdFacts* known = FactsAs<NxdFacts>(survey);
  const NxdFacts nxd = known ? *known : NxdFacts();
  if (nxd.read) AddSetKeys(facts.layout, nxd);
  AddGrid(facts.first, nxd);
  AddTags(facts.first, nxd);
  facts.files.Add(nxd.beside.empty() ? "" : "beside", Joined(nxd.beside, ItemText), "beside",
                  ItemsJson(nxd.beside));
}

}  // namespace nxdkit::kinds
