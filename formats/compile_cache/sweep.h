// Makes room in the trees of vLLM Neuron and TorchNeuron, as prune.h does in libneuronxla's.
#pragma once

#include <string>

#include "formats/compile_cache/prune.h"
#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// Always removed: leftovers of dead processes and locks without a purpose ("leftover"), unfinished
// entries that nobody works on ("unfinished") and binaries that nothing names ("not named"), each
// after ten quiet minutes, or a day where the process cannot be checked; and files of owners that
// died ("dead owner"), at once where the process can be checked, otherwise after a day. With
// `damaged` also entries for which IsDamaged is true, and kernels whose binary is missing; with
// `everything` all entries and kernels. Then the least recently used, as in Prune. kUsage with
// `only_compiler`: entries do not record their compiler.
//
// Each entry is removed under its lock: those that others work on stay.
Result<PruneReport> Sweep(const FoundTree& tree, const PruneOptions& options,
                          const std::string& neff_tree_locks);

}  // namespace nxdkit::neff
