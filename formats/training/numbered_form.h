// PRIVATE to formats: the form of an optimizer's state in an NxD tag, apart from its numbers. A
// distributed checkpoint has no place for it, and the way back needs it to produce the same bytes.
// It is stored in the checkpoint as an object of its own, which torch ignores.
#pragma once

#include "formats/artifact/bound.h"
#include "lib/base/error.h"

namespace nxdkit::training {

inline constexpr char kNumberedFormKey[] = "nxdkit.optimizer";

NumberedForm FormOf(const BoundArtifact& tag);  // the form of a bound tag

torch::PickleValue WriteNumberedForm(const NumberedForm& form);
// kCorrupt for anything that WriteNumberedForm does not write.
Result<NumberedForm> ReadNumberedForm(const torch::PickleValue& value);

}  // namespace nxdkit::training
