#include "formats/delta/file_format.h"

#include <cstring>
#include <set>

#include "lib/base/checked.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"

namespace nxdkit::delta {
namespace {

Result<Shape> ReadShape(const Json& json) {
  const Json* dims = JsonFind(json, "shape");
  if (dims == nullptr || !dims->is_array() || dims->size() > 64)
    return Corrupt("expected an array of at most 64 sizes").member("shape");
  Shape shape;
  for (const Json& dim : *dims) {
    const std::optional<int64_t> size =
        dim.is_number_unsigned()  ? CheckedCast<int64_t>(dim.get<uint64_t>())
        : dim.is_number_integer() ? std::optional(dim.get<int64_t>())
                                  : std::nullopt;
    if (!size) return Corrupt("found {}, expected a size", JsonExcerpt(dim)).member("shape");
    shape.push_back(*size);
  }
  return shape;
}

Result<Param> ReadParam(const Json& json) {
  Param param;
  NXDKIT_ASSIGN(param.name, JsonString(json, "name"));
  NXDKIT_ASSIGN(const std::string dtype, JsonString(json, "dtype"));
  const std::optional<Dtype> known = DtypeFromName(dtype);
  if (!known || !CanEncode(*known))
    return Unsupported("a delta of elements of dtype \"{}\"", dtype).on(param.name);
  param.dtype = *known;
  NXDKIT_ASSIGN(param.shape, ReadShape(json));
  NXDKIT_TRY(PackedBytes(param.dtype, param.shape).on(param.name));
  NXDKIT_ASSIGN(const int64_t changed, JsonInt(json, "changed"));
  if (changed < 0 || static_cast<uint64_t>(changed) > param.elements())
    return Corrupt("{} of {} elements changed", changed, param.elements())
        .on(param.name)
        .member("changed");
  param.changed = static_cast<uint64_t>(changed);
  return param;
}

}  // namespace

std::array<std::byte, kHeaderBytes> MakeHeader(Coding coding, uint64_t payload_bytes,
                                               std::span<const std::byte> table,
                                               std::span<const std::byte> meta) {
  std::array<std::byte, kHeaderBytes> header{};
  size_t at = 0;
  const auto put = [&](const auto& value) {
    std::memcpy(header.data() + at, &value, sizeof value);
    at += sizeof value;
  };
  put(kMagic);
  put(kVersion);
  put(static_cast<uint32_t>(coding));
  put(payload_bytes);
  put(uint64_t{table.size()});
  put(uint64_t{meta.size()});
  Sha256 sum;
  sum.Update(std::span(header).first(kSumAt));
  sum.Update(table);
  sum.Update(meta);
  put(sum.Finish());
  return header;
}

std::string WriteMeta(const std::vector<Param>& params) {
  Json rows = Json::array();
  for (const Param& param : params)
    rows.push_back({{"name", param.name},
                    {"dtype", Name(param.dtype)},
                    {"shape", param.shape},
                    {"changed", param.changed}});
  const Json json = {{"block_bytes", kBlockBytes}, {"params", std::move(rows)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

Result<std::vector<Param>> ReadMeta(std::string_view text) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text));
  NXDKIT_ASSIGN(const int64_t block_bytes, JsonInt(json, "block_bytes"));
  if (block_bytes != static_cast<int64_t>(kBlockBytes))
    return Unsupported("blocks of {} bytes, this program knows {}", block_bytes, kBlockBytes)
        .member("block_bytes");
  NXDKIT_ASSIGN(const Json* rows, JsonArray(json, "params"));
  std::vector<Param> params;
  std::set<std::string> names;
  for (const Json& row : *rows) {
    NXDKIT_ASSIGN(Param param, ReadParam(row));
    if (!names.insert(param.name).second)
      return Corrupt("the parameter is there twice").on(param.name);
    params.push_back(std::move(param));
  }
  return params;
}

}  // namespace nxdkit::delta
