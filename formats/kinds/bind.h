// PRIVATE to formats/kinds: functions that bind artifacts of any kind.
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

// Finds the wrappers around the names in the artifact's files from `first` to `last`, and warns of
// them.
Unwrapping UnwrapFiles(Artifact& artifact, size_t first, size_t last, const NameMap& known);

// Lays out the tensors of one of the artifact's files, by their names after `unwrapping`.
// kUnsupported for a tensor that is not known and that the family does not allow to be ignored.
Status BindFile(BoundArtifact& out, uint32_t file, const NameMap& known,
                const Unwrapping& unwrapping);

// Takes the model's parameters from the configuration; an error if it, or its family, is not known.
Status RequireFamily(BoundArtifact& out);

// kCorrupt for a name that is carried twice.
Status CheckCarriedOnce(const BoundArtifact& out);
// The key of safetensors' metadata under which files written by nxdkit list their buffers that the
// family does not know: a list in JSON.
inline constexpr char kBuffersKey[] = "nxdkit.buffers";
// Its value; "" if there are none.
std::string BuffersText(const BoundArtifact& source, const std::vector<std::string>& names);

// Adds a tensor that is not a parameter of the model, and that must not be lost when the model is
// copied. Returns its number in out.params; the caller adds where it is stored. Call before an
// optimizer's state is added.
uint32_t AddCarried(BoundArtifact& out, const std::string& name, const Shape& shape);
// Removes the carried tensors from the artifact, with a warning: the output has no place for them.
void LeaveCarried(BoundArtifact& out);

void WarnOfConfig(Artifact& artifact);  // Adds a warning for a configuration that cannot be read.

// Adds verify's line about heads that are in order, if the family has projections cut by heads;
// `assumed` ends the line.
void NameMeaning(const BoundArtifact& bound, uint64_t ranks, std::string_view assumed,
                 std::vector<std::string>& checks);

}  // namespace nxdkit::kinds
