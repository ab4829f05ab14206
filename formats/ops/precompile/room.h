// How many compilers may run beside each other: by processors, and by the memory that each is
// likely to take. Source of the table: peaks of neuronx-cc's process trees that a third party
// published for graphs of several sizes; it is a guide, not a bound.
#pragma once

#include <cstdint>
#include <optional>

namespace nxdkit::ops {

// For a graph of so many bytes, unpacked.
uint64_t LikelyCompilerMemory(uint64_t graph_bytes);

// Half of the processors that this process may run on, at least 1: a compiler has several threads.
int DefaultCompilers();

class CompilerRoom {
 public:
  // nullopt: the system does not tell, and memory bounds nothing.
  CompilerRoom(int most, std::optional<uint64_t> memory) : most_(most), memory_(memory) {}

  // Whether one more may start. The first always may: it has all there is.
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
