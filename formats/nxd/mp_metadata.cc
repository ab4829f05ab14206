#include "formats/nxd/mp_metadata.h"

#include <fmt/core.h>

#include <charconv>
#include <map>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json_reader.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;
constexpr int64_t kMaxNumber = 1'000'000;
constexpr std::string_view kRecordPrefix = "mp_metadata_pp_rank_";

Result<MpParameter> ReadParameter(const std::string& name, const Json& json) {
  JsonReader reader(json, "", "parameters." + name + ".");
  MpParameter out{name, reader.Flag("tensor_model_parallel", std::nullopt)};
  if (out.parallel) {
    out.dim = reader.Int("partition_dim", std::nullopt, 0, kMaxNumber);
    out.partitions = reader.Int("num_partitions", std::nullopt, 1, kMaxNumber);
    reader.Int("partition_stride", std::nullopt, 1, kMaxNumber);
  }
  NXDKIT_TRY(reader.status());
  return out;
}

// A value that several layers record, and must record alike.
template <typename T>
void Agree(JsonReader& reader, const char* key, T value, std::optional<T>& known) {
  if (known && *known != value)
    reader.Fail(key, fmt::format("found {}, another layer says {}", value, *known));
  known = value;
}

void AgreeOnNumber(JsonReader& reader, const char* key, std::optional<int64_t>& known) {
  Agree(reader, key, reader.Int(key, std::nullopt, 1, kMaxNumber), known);
}

// Reads one [class name, fields].
Status ReadSpec(const Json& spec, const std::string& where, MpMetadata& out) {
  if (!spec.is_array() || spec.size() != 2 || !spec[0].is_string() || !spec[1].is_object())
    return Corrupt("found {}, expected a class name and its fields", JsonExcerpt(spec))
        .member(where);
  const bool gqa = spec[0] == "GQAQKVColumnParallelLinearSpec";
  if (!gqa && spec[0] != "FusedLinearsSpec")
    return Unsupported("layers of class {} store their parameters in a way that is not known",
                       JsonExcerpt(spec[0]))
        .member(where);
  JsonReader reader(spec[1], "", where + ".");
  AgreeOnNumber(reader, "tp_size", out.tp);
  if (gqa) {
    AgreeOnNumber(reader, "num_attention_heads", out.heads);
    AgreeOnNumber(reader, "num_key_value_heads", out.kv_heads);
    AgreeOnNumber(reader, "kv_size_multiplier", out.kv_multiplier);
    Agree(reader, "fuse_qkv", reader.Flag("fuse_qkv", std::nullopt), out.fuse_qkv);
  }
  return reader.status();
}

Result<const Json*> ListAt(const Json& json, const char* key, const std::string& where) {
  const Json* list = JsonFind(json, key);
  if (list && list->is_array()) return list;
  return Corrupt("found {}, expected an array", list ? JsonExcerpt(*list) : "nothing")
      .member(where);
}

Status ReadSpecs(const Json& json, MpMetadata& out) {
  constexpr const char* kTop = "model_weight_transformation_specs";
  NXDKIT_ASSIGN(const Json* modules, ListAt(json, kTop, kTop));
  for (size_t i = 0; i < modules->size(); ++i) {
    const std::string where = fmt::format("{}[{}].specs", kTop, i);
    NXDKIT_ASSIGN(const Json* specs, ListAt((*modules)[i], "specs", where));
    for (size_t s = 0; s < specs->size(); ++s)
      NXDKIT_TRY(ReadSpec((*specs)[s], fmt::format("{}[{}]", where, s), out));
  }
  return OkStatus();
}

Result<MpMetadata> ReadMetadata(const Json& json) {
  MpMetadata out;
  const Json* parameters = JsonFind(json, "parameters");
  if (!parameters || !parameters->is_object())
    return Corrupt("found {}, expected an object",
                   parameters ? JsonExcerpt(*parameters) : "nothing")
        .member("parameters");
  for (const auto& [name, value] : parameters->items()) {
    NXDKIT_ASSIGN(MpParameter parameter, ReadParameter(name, value));
    out.parameters.push_back(std::move(parameter));
  }
  NXDKIT_TRY(ReadSpecs(json, out));
  return out;
}

// "mp_metadata_pp_rank_3.json" -> 3 and ".json"
std::optional<std::pair<int, std::string>> RankOf(std::string_view name) {
  if (!name.starts_with(kRecordPrefix)) return std::nullopt;
  name.remove_prefix(kRecordPrefix.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || rank < 0) return std::nullopt;
  return std::pair(rank, std::string(end, name.data() + name.size()));
}

// The claims of all ranks' files together; a contradiction between two is an error.
Status AddClaims(const MpMetadata& metadata, MpRecord& record) {
  const auto say = [&](std::optional<int>& known, const std::optional<int64_t>& value,
                       const char* key) -> Status {
    if (!value) return OkStatus();
    const int number = static_cast<int>(*value);
    if (known && *known != number)
      return Corrupt("found {}, {} says {}", number, record.claims.origin, *known).member(key);
    known = number;
    return OkStatus();
  };
  NXDKIT_TRY(say(record.claims.tp, metadata.tp, "tp_size"));
  NXDKIT_TRY(say(record.claims.kv_multiplier, metadata.kv_multiplier, "kv_size_multiplier"));
  if (!metadata.fuse_qkv) return OkStatus();
  const QkvStyle style = *metadata.fuse_qkv ? QkvStyle::kFused : QkvStyle::kLinear;
  if (record.claims.qkv && *record.claims.qkv != style)
    return Corrupt("found {}, {} says otherwise", *metadata.fuse_qkv, record.claims.origin)
        .member("fuse_qkv");
  record.claims.qkv = style;
  // optimum-neuron tiles key heads and orders query heads as NxD does for trn1, on all hardware.
  record.claims.hardware = models::Hardware::kTrn1;
  return OkStatus();
}

}  // namespace

Result<MpMetadata> ParseMpMetadata(std::string_view json_text, const std::string& path) {
  NXDKIT_ASSIGN(const Json json, ParseJson(json_text).in(path));
  NXDKIT_ASSIGN(MpMetadata metadata, ReadMetadata(json).in(path));
  metadata.path = path;
  return metadata;
}

Result<std::optional<MpRecord>> ReadMpRecord(const std::string& tag_folder, int pp,
                                             const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(tag_folder));
  std::map<int, std::string> paths;
  MpRecord record;
  for (const std::string& name : names) {
    const auto rank = RankOf(name);
    if (rank && rank->second == ".json") paths[rank->first] = JoinPath(tag_folder, name);
    if (rank && rank->second == ".pt")
      record.warnings.push_back(fmt::format(
          "{}: the metadata of an older optimum-neuron is not read", JoinPath(tag_folder, name)));
  }
  if (paths.empty() && record.warnings.empty()) return std::optional<MpRecord>();
  if (!paths.empty() && paths.rbegin()->first >= pp)
    return Corrupt("the shards are of {}: those of rank {} are missing",
                   Counted(pp, "pipeline rank"), paths.rbegin()->first)
        .in(paths.rbegin()->second);
  record.ranks.resize(static_cast<size_t>(pp));
  for (int rank = 0; rank < pp && !paths.empty(); ++rank) {
    const auto it = paths.find(rank);
    if (it == paths.end()) {
      record.warnings.push_back(
          fmt::format("{}: {}{}.json is missing", tag_folder, kRecordPrefix, rank));
      continue;
    }
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(it->second, kMaxBytes));
    NXDKIT_ASSIGN(MpMetadata metadata, ParseMpMetadata(text, it->second));
    if (record.claims.origin.empty()) record.claims.origin = BaseName(it->second);
    record.claims.in_set = true;
    NXDKIT_TRY(AddClaims(metadata, record).in(metadata.path));
    record.ranks[static_cast<size_t>(rank)] = std::move(metadata);
  }
  return std::optional<MpRecord>(std::move(record));
}

Status CheckMpHeads(const MpRecord& record, const models::ModelConfig& config) {
  for (const std::optional<MpMetadata>& metadata : record.ranks) {
    if (!metadata) continue;
    for (const auto& [key, said, known] :
         {std::tuple{"num_attention_heads", metadata->heads, config.heads},
          std::tuple{"num_key_value_heads", metadata->kv_heads, config.kv_heads}})
      if (said && *said != known)
        return Corrupt("found {}, the config says {}", *said, known).in(metadata->path).member(key);
  }
  return OkStatus();
}

}  // namespace nxdkit::nxd
