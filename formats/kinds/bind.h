// PRIVATE to formats/kinds: what binding needs, whatever the kind.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/kinds/unwrap.h"

namespace nxdkit::kinds {

using NameMap = std::unordered_map<std::string, TensorLayout>;
NameMap ByName(std::vector<TensorLayout> tensors);

// Finds what is around the names of the artifact's files from `first` to `last`, and warns of it.
Unwrapping UnwrapFiles(Artifact& artifact, size_t first, size_t last, const NameMap& known);

// Lays out the tensors of one of the artifact's files, by the names that `unwrapping` gives them.
// kUnsupported for one that is not known, and that the family does not let go.
Status BindFile(BoundArtifact& out, uint32_t file, const NameMap& known,
                const Unwrapping& unwrapping);

// Takes the model's parameters from the configuration; an error where it, or its family, is not
// known.
Status RequireFamily(BoundArtifact& out);

// kCorrupt for a name that is carried twice.
Status CheckCarriedOnce(const BoundArtifact& out);
// The key of safetensors' metadata under which our own files say which of their tensors are buffers
// that the family does not know: a list in JSON.
inline constexpr char kBuffersKey[] = "nxdkit.buffers";
// Its value; "" where there are none.
std::string BuffersText(const BoundArtifact& source, const std::vector<std::string>& names);

// Adds a tensor that no parameter of the model is, and that whoever copies the model must not lose.
// Its number in out.params; where it is stored is for the caller to add. Before an optimizer's
// state.
uint32_t AddCarried(BoundArtifact& out, const std::string& name, const Shape& shape);
// Takes what is carried out of the artifact, with a warning: the output has no place for it.
void LeaveCarried(BoundArtifact& out);

void WarnOfConfig(Artifact& artifact);  // The warning for a configuration that cannot be read.

// What verify says of heads that are good, where the family has projections that are cut by them;
// `assumed` ends it.
void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks);

}  // namespace nxdkit::kinds
