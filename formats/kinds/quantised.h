// PRIVATE to formats/kinds: models whose weights are quantised, which no table of a family has.
// Source of the names: transformers, src/transformers/quantizers and the savers that it calls.
#pragma once

#include <string>
#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

// kUnsupported for quantised weights, naming the method; where no family's table says what they
// are, `bound.quantised` has the error, and they can be copied byte for byte alone. A configuration
// that says so of weights that are not quantised is left without it, and a warning says so.
Status CheckQuantised(BoundArtifact& bound);

// For a tensor that is not of the model: the same, where it is one of quantised weights.
Status CheckNotQuantised(const Artifact& artifact, std::string_view tensor,
                         const std::string& file);

}  // namespace nxdkit::kinds
