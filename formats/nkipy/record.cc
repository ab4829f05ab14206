#include "formats/nkipy/record.h"

#include "lib/json/json.h"

namespace nxdkit::nkipy {

std::string RecordText(const Geometry& geometry, const models::Family& family, Dtype dtype,
                       const std::string& source_digest) {
  Json files = Json::array();
  for (int rank = 0; rank < geometry.tp; ++rank) files.push_back(ShardFileName(rank));
  Json json = {
      {"schema_version", 1},         {"nxdkit_version", NXDKIT_VERSION},
      {"format", "nkipy"},           {"layout_is", "derived from the vendor's script, not run"},
      {"tp", geometry.tp},           {"tok_embedding", EmbeddingName(geometry.embedding)},
      {"family", family.model_type}, {"family_sha256", family.digest},
      {"dtype", TorchName(dtype)},   {"files", std::move(files)}};
  if (!source_digest.empty()) json["source_digest"] = source_digest;
  return DumpPython(json) + "\n";
}

}  // namespace nxdkit::nkipy
