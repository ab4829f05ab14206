// The decision on the output of a conversion: each kind's own (Kind::decide), and the rules that
// kinds share.
#pragma once

#include "formats/kinds/output.h"

namespace nxdkit::kinds {

// Decides the output's layout. kUsage for missing or contradicting options, kUnsupported with the
// reason if it cannot be laid out.
Result<std::unique_ptr<Output>> DecideOutput(const BoundArtifact& source, const Kind& kind,
                                             const OutputOptions& options);

// --- rules shared by the folders of kinds

// The tensor parallel size that is asked for, else the source's; kUsage if neither gives one.
Result<int> DecideTp(const BoundArtifact& source, const Kind& kind, const OutputOptions& options);
// kNotFound or kUnsupported if the model's family is not known.
Status RequireModel(const BoundArtifact& source);
// The one dtype of all weights if none is asked for: the source's, if it has only one.
Result<Dtype> CommonDtype(const BoundArtifact& source, bool downcast);
// The output's config.json: unchanged except for the dtype, which loaders read.
Status DecideConfig(const BoundArtifact& source, Output& output);

}  // namespace nxdkit::kinds
