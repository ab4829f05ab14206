#include "formats/nxd/mp_metadata.h"

#include <fmt/core.h>

#include <charconv>
#include <map>

#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;
constexpr int64_t kMaxNumber = 1'000'000;
constexpr std::string_view kRecordPrefix = "mp_metadata_pp_rank_";

Error Fault(const std::string& key, std::string what) {
  return Error(Errc::kCorrupt, std::move(what)).member(key);
}

Result<int64_t> Number(const Json& json, const std::string& where, const char* key, int64_t least) {
  const Json* value = JsonFind(json, key);
  const std::string name = where + "." + key;
  if (!value)
    return Fault(name,
                 fmt::format("missing; expected an integer from {} to {}", least, kMaxNumber));
  if (!value->is_number_integer() || value->get<int64_t>() < least ||
      value->get<int64_t>() > kMaxNumber)
    return Fault(name, fmt::format("found {}, expected an integer from {} to {}",
                                   JsonExcerpt(*value), least, kMaxNumber));
  return value->get<int64_t>();
}

Result<MpParameter> ReadParameter(const std::string& name, const Json& json) {
  const std::string where = "parameters." + name;
  const Json* parallel = JsonFind(json, "tensor_model_parallel");
  if (!parallel || !parallel->is_boolean())
    return Fault(where + ".tensor_model_parallel",
                 fmt::format("found {}, expected true or false",
                             parallel ? JsonExcerpt(*parallel) : "nothing"));
  MpParameter out{name, parallel->get<bool>()};
  if (!out.parallel) return out;
  NXDKIT_ASSIGN(out.dim, Number(json, where, "partition_dim", 0));
  NXDKIT_ASSIGN(out.partitions, Number(json, where, "num_partitions", 1));
  NXDKIT_TRY(Number(json, where, "partition_stride", 1));
  return out;
}

// What several layers say, and must say alike.
template <typename T>
Status Agree(std::optional<T>& known, const T& value, const std::string& where) {
  if (known && *known != value)
    return Fault(where, fmt::format("found {}, another layer says {}", value, *known));
  known = value;
  return OkStatus();
}

Status ReadGqa(const Json& fields, const std::string& where, MpMetadata& out) {
  NXDKIT_ASSIGN(const int64_t heads, Number(fields, where, "num_attention_heads", 1));
  NXDKIT_ASSIGN(const int64_t kv_heads, Number(fields, where, "num_key_value_heads", 1));
  NXDKIT_ASSIGN(const int64_t multiplier, Number(fields, where, "kv_size_multiplier", 1));
  const Json* fuse = JsonFind(fields, "fuse_qkv");
  if (!fuse || !fuse->is_boolean())
    return Fault(where + ".fuse_qkv", fmt::format("found {}, expected true or false",
                                                  fuse ? JsonExcerpt(*fuse) : "nothing"));
  NXDKIT_TRY(Agree(out.heads, heads, where + ".num_attention_heads"));
  NXDKIT_TRY(Agree(out.kv_heads, kv_heads, where + ".num_key_value_heads"));
  NXDKIT_TRY(Agree(out.kv_multiplier, multiplier, where + ".kv_size_multiplier"));
  return Agree(out.fuse_qkv, fuse->get<bool>(), where + ".fuse_qkv");
}

// One [class name, fields].
Status ReadSpec(const Json& spec, const std::string& where, MpMetadata& out) {
  if (!spec.is_array() || spec.size() != 2 || !spec[0].is_string() || !spec[1].is_object())
    return Fault(where,
                 fmt::format("found {}, expected a class name and its fields", JsonExcerpt(spec)));
  const std::string name = spec[0].get<std::string>();
  if (name != "FusedLinearsSpec" && name != "GQAQKVColumnParallelLinearSpec")
    return Error(Errc::kUnsupported,
                 fmt::format("layers of class {} store their parameters in a way that is not known",
                             JsonExcerpt(spec[0])))
        .member(where);
  NXDKIT_ASSIGN(const int64_t tp, Number(spec[1], where, "tp_size", 1));
  NXDKIT_TRY(Agree(out.tp, tp, where + ".tp_size"));
  return name == "FusedLinearsSpec" ? OkStatus() : ReadGqa(spec[1], where, out);
}

Status ReadSpecs(const Json& json, MpMetadata& out) {
  const Json* modules = JsonFind(json, "model_weight_transformation_specs");
  const std::string top = "model_weight_transformation_specs";
  if (!modules || !modules->is_array())
    return Fault(top, fmt::format("found {}, expected an array",
                                  modules ? JsonExcerpt(*modules) : "nothing"));
  for (size_t i = 0; i < modules->size(); ++i) {
    const std::string where = fmt::format("{}[{}].specs", top, i);
    const Json* specs = JsonFind((*modules)[i], "specs");
    if (!specs || !specs->is_array())
      return Fault(where, fmt::format("found {}, expected an array",
                                      specs ? JsonExcerpt(*specs) : "nothing"));
    for (size_t s = 0; s < specs->size(); ++s)
      NXDKIT_TRY(ReadSpec((*specs)[s], fmt::format("{}[{}]", where, s), out));
  }
  return OkStatus();
}

Result<MpMetadata> Read(const Json& json) {
  MpMetadata out;
  const Json* parameters = JsonFind(json, "parameters");
  if (!parameters || !parameters->is_object())
    return Fault("parameters", fmt::format("found {}, expected an object",
                                           parameters ? JsonExcerpt(*parameters) : "nothing"));
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

// What the files of all ranks say together; what two say differently is an error.
Status AddClaims(const MpMetadata& metadata, MpRecord& record) {
  const auto say = [&](std::optional<int>& known, const std::optional<int64_t>& value,
                       const char* key) -> Status {
    if (!value) return OkStatus();
    const int number = static_cast<int>(*value);
    if (known && *known != number)
      return Fault(key, fmt::format("found {}, {} says {}", number, record.claims.origin, *known))
          .in(metadata.path);
    known = number;
    return OkStatus();
  };
  NXDKIT_TRY(say(record.claims.tp, metadata.tp, "tp_size"));
  NXDKIT_TRY(say(record.claims.kv_multiplier, metadata.kv_multiplier, "kv_size_multiplier"));
  if (!metadata.fuse_qkv) return OkStatus();
  const QkvStyle style = *metadata.fuse_qkv ? QkvStyle::kFused : QkvStyle::kLinear;
  if (record.claims.qkv && *record.claims.qkv != style)
    return Fault("fuse_qkv", fmt::format("found {}, {} says otherwise", *metadata.fuse_qkv,
                                         record.claims.origin))
        .in(metadata.path);
  record.claims.qkv = style;
  // optimum-neuron tiles key heads and orders query heads as NxD does for trn1, on all hardware.
  record.claims.hardware = models::Hardware::kTrn1;
  return OkStatus();
}

}  // namespace

Result<MpMetadata> ParseMpMetadata(std::string_view json_text, const std::string& path) {
  const Result<Json> json = ParseJson(json_text);
  if (!json.ok()) return Error(json.error()).in(path);
  Result<MpMetadata> metadata = Read(*json);
  if (!metadata.ok()) return std::move(metadata).error().in(path);
  metadata->path = path;
  return metadata;
}

Result<std::optional<MpRecord>> ReadMpRecord(const std::string& tag_folder, int pp) {
  const auto names = ListFolder(tag_folder);
  if (!names.ok()) return std::optional<MpRecord>();
  std::map<int, std::string> paths;
  MpRecord record;
  for (const std::string& name : *names) {
    const auto rank = RankOf(name);
    if (rank && rank->second == ".json") paths[rank->first] = JoinPath(tag_folder, name);
    if (rank && rank->second == ".pt")
      record.warnings.push_back(fmt::format(
          "{}: the metadata of an older optimum-neuron is not read", JoinPath(tag_folder, name)));
  }
  if (paths.empty() && record.warnings.empty()) return std::optional<MpRecord>();
  if (!paths.empty() && paths.rbegin()->first >= pp)
    return Error(Errc::kCorrupt,
                 fmt::format("the shards are of {} pipeline rank{}: those of rank {} are missing",
                             pp, pp == 1 ? "" : "s", paths.rbegin()->first))
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
    NXDKIT_TRY(AddClaims(metadata, record));
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
        return Fault(key, fmt::format("found {}, the config says {}", *said, known))
            .in(metadata->path);
  }
  return OkStatus();
}

}  // namespace nxdkit::nxd
