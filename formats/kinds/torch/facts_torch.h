// PRIVATE to formats: the facts of one torch archive, as ckpt-inspect shows them, wherever in its
// values the tensors are.
#pragma once

#include <string>

#include "formats/kinds/survey.h"

namespace nxdkit::kinds {

// The form of an archive with a program. It is not a kind of artifact, and everything else stays
// empty.
inline constexpr std::string_view kTorchProgram = "torchscript";

// A state dict, nested values, a shard of an NxD set, or a TorchScript program.
Status DescribeTorch(Survey& survey, const std::string& path, const InputHints& hints);

// The tensors of any torch archive, named by their place in its values; those of an xser file are
// read from their own files.
Result<TensorFile> ReadTreeOfTensors(const std::string& path);

}  // namespace nxdkit::kinds
