// The decision of what a conversion writes: a kind's own (Kind::decide), and the rules that kinds
// share.
#pragma once

#include "formats/kinds/output.h"

namespace nxdkit::kinds {

// Decides the output's layout. kUsage for missing or contradicting options, kUnsupported with the
// reason for what cannot be laid out.
Result<std::unique_ptr<Output>> DecideOutput(const BoundArtifact& source, const Kind& kind,
                                             const OutputOptions& options);

// --- rules that the folders of kinds share

// The tensor parallel size that is asked for, else the source's; kUsage where neither says one.
Result<int> DecideTp(const BoundArtifact& source, const Kind& kind, const OutputOptions& options);
// kNotFound or kUnsupported where the model's family is not known.
Status RequireModel(const BoundArtifact& source);
// The one dtype of all weights when nobody names it: that of the source, if it has one.
Result<Dtype> CommonDtype(const BoundArtifact& source, bool downcast);
// config.json beside the output: as it was, but for the dtype, which loaders go by.
Status DecideConfig(const BoundArtifact& source, Output& output);

}  // namespace nxdkit::kinds
