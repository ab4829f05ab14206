// PRIVATE to formats/kinds: models with quantised weights, which no family's table describes.
// Source of the names: transformers, src/transformers/quantizers and the savers that it calls.
#pragma once

#include <string>
#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// kUnsupported for quantised weights, naming the method; for a family without a table,
// `bound.quantised` has the error, and they can only be copied byte for byte. If a configuration
// claims it of weights that are not quantised, the claim is removed, with a warning.
Status CheckQuantised(BoundArtifact& bound);

// For a tensor that is not in the model: the same, if it belongs to quantised weights.
Status CheckNotQuantised(const Artifact& artifact, std::string_view tensor,
                         const std::string& file);

}  // namespace nxdkit::kinds
