#include "formats/kinds/hf/read_hf.h"

#include <unordered_map>

#include "formats/kinds/bind.h"
#include "formats/models/experts.h"
#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"

namespace nxdkit::ops {
namespace {

// A model that nobody wrote a table for: each tensor is its own parameter.
Status BindPlain(BoundArtifact& out) {
  std::unordered_map<std::string, std::string> seen;
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) {
    for (const StoredTensor& stored : out.artifact.files[f].tensors) {
      const auto [it, added] = seen.emplace(stored.name, out.artifact.files[f].path);
      if (!added)
        return Corrupt("the tensor is in {} too", it->second)
            .in(out.artifact.files[f].path)
            .on(stored.name);
      const auto number = static_cast<uint32_t>(out.params.size());
      out.params.push_back({stored.name, stored.shape, 0, 0});
      out.bound.Add(WholeTensor(stored.name, f, number, stored.shape), stored);
    }
  }
  return OkStatus();
}

}  // namespace

Status BindHf(BoundArtifact& out, const InputHints&) {
  WarnOfConfig(out.artifact);
  if (!out.artifact.config || !out.artifact.config->family) return BindPlain(out);
  NXDKIT_TRY(RequireFamily(out));
  NameMap known = ByName(models::HfTensors(*out.model, true));
  known.merge(ByName(models::FusedExperts(*out.model)));
  for (uint32_t f = 0; f < out.artifact.files.size(); ++f) NXDKIT_TRY(BindFile(out, f, known));
  return OkStatus();
}

}  // namespace nxdkit::ops
