#include <unordered_set>

#include "formats/kinds/bind.h"
#include "formats/kinds/nkipy/read_nkipy.h"

namespace nxdkit::kinds {

std::vector<Finding> CheckNkipy(const BoundArtifact& bound) {
  const int ranks = static_cast<int>(bound.artifact.files.size());
  std::vector<Finding> findings;
  for (int rank = 0; rank < ranks; ++rank) {
    const TensorFile& file = bound.artifact.files[static_cast<size_t>(rank)];
    const auto expected = nkipy::RankTensors(*bound.model, {ranks}, rank);
    if (!expected.ok()) return findings;
    std::unordered_set<std::string_view> here;
    for (const StoredTensor& tensor : file.tensors) here.insert(tensor.name);
    for (const TensorLayout& tensor : *expected)
      if (!here.contains(tensor.name))
        findings.push_back(Finding("missing", "the tensor is missing")
                               .in(file.path)
                               .on(tensor.name)
                               .at_rank(rank));
  }
  return findings;
}

void NameNkipyChecks(const BoundArtifact& bound, uint64_t ranks, std::vector<std::string>& checks) {
  checks.push_back("replicas are bit-equal");
  NameMeaning(bound, ranks, "; the layout is derived from the vendor's script, not run", checks);
}

}  // namespace nxdkit::kinds
