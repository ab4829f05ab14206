// How many compilers may run at once: by processors, and by the memory that each is likely to take.
// Source of the table: peaks of neuronx-cc's process trees that a third party published for graphs
// of several sizes; it is a guide, not a bound.
#pragma once

#include <cstdint>
#include <optional>

namespace nxdkit::ops {

// For a graph of this many bytes, unpacked.
uint64_t LikelyCompilerMemory(uint64_t graph_bytes);

// Half of the processors that this process may run on, at least 1: a compiler has several threads.
int DefaultCompilers();

class CompilerRoom {
 public:
  // nullopt: the system does not say, and memory is not limited.
  CompilerRoom(int most, std::optional<uint64_t> memory) : most_(most), memory_(memory) {}

  // Whether one more may start. The first always may: it gets everything.
  bool Fits(uint64_t memory) const;
  void Take(uint64_t memory);
  void GiveBack(uint64_t memory);
  int running() const { return running_; }
  int most() const { return most_; }
  std::optional<uint64_t> memory() const { return memory_; }

 private:
  int most_;
  std::optional<uint64_t> memory_;
  int running_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace nxdkit::ops
