// Making room in the trees of vLLM Neuron and of TorchNeuron, as prune.h does it in that of
// libneuronxla.
#pragma once

#include <string>

#include "formats/compile_cache/prune.h"
#include "formats/compile_cache/tree.h"

namespace nxdkit::neff {

// Goes always: leftovers of processes that died and locks of nothing ("leftover"), unfinished
// entries that nobody works on ("unfinished") and binaries that nothing names ("not named"), each
// after it was quiet for ten minutes, or, where a process cannot be asked, a day; and files of
// owners that died ("dead owner"), at once where a process can be asked, else after a day. With
// `damaged` entries that IsDamaged says are, and kernels whose binary is gone; with `everything`
// all entries and kernels. Then the least recently used, as Prune does. kUsage with
// `only_compiler`: no entry says what compiled it.
//
// Each entry goes under its lock: what others work on is left.
Result<PruneReport> Sweep(const FoundTree& tree, const PruneOptions& options,
                          const std::string& neff_tree_locks);

}  // namespace nxdkit::neff
