#include "formats/ops/precompile/room.h"

#include <algorithm>

#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMega = 1'000'000;
constexpr uint64_t kGiga = 1'000'000'000;

struct Row {
  uint64_t graph_bytes;  // up to
  uint64_t memory;
};
constexpr Row kRows[] = {{1 * kMega, 11 * kGiga},
                         {2 * kMega, 14 * kGiga},
                         {3 * kMega, 23 * kGiga},
                         {6 * kMega, 36 * kGiga}};
constexpr uint64_t kAbove = 107 * kGiga;

}  // namespace

uint64_t LikelyCompilerMemory(uint64_t graph_bytes) {
  for (const Row& row : kRows)
    if (graph_bytes <= row.graph_bytes) return row.memory;
  return kAbove;
}

int DefaultCompilers() { return std::max(1, static_cast<int>(AllowedProcessors().size()) / 2); }

bool CompilerRoom::Fits(uint64_t memory) const {
  if (running_ == 0) return true;
  return running_ < most_ && (!memory_ || (memory <= *memory_ && taken_ <= *memory_ - memory));
}

void CompilerRoom::Take(uint64_t memory) {
  ++running_;
  taken_ += memory;
}

void CompilerRoom::GiveBack(uint64_t memory) {
  --running_;
  taken_ -= memory;
}

}  // namespace nxdkit::ops
