// PRIVATE to formats: how an NxD tag keeps an optimizer's state, beyond the numbers. A distributed
// checkpoint has no place for it, and the way back needs it to come to the same bytes. It goes
// with the checkpoint as an object of its own, which torch passes over.
#pragma once

#include "formats/artifact/bound.h"
#include "lib/base/error.h"

namespace nxdkit::training {

inline constexpr char kNumberedFormKey[] = "nxdkit.optimizer";

NumberedForm FormOf(const BoundArtifact& tag);  // The form of a bound tag.

torch::PickleValue WriteNumberedForm(const NumberedForm& form);
// kCorrupt for what WriteNumberedForm does not write.
Result<NumberedForm> ReadNumberedForm(const torch::PickleValue& value);

}  // namespace nxdkit::training
