// Checks of parameters' values, which names and shapes cannot reveal: NaNs and infinities, and
// parameters that are all zeros, as left by a download that was never filled. Uses bytes that are
// read anyway.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/artifact/bound.h"
#include "lib/plan/executor.h"

namespace nxdkit::artifact {

// The values of one parameter.
struct ParamValues {
  uint32_t param = 0;
  uint64_t nan = 0;  // each element once, even if it is stored more than once
  uint64_t inf = 0;
  bool zero = false;  // all stored values were seen, and are zero
  // The place of the first NaN or infinity, else of the first zero:
  uint32_t tensor = 0;
  int64_t element = 0;  // row-major
  std::string found;    // its value and bits; "" for zeros
};

// Whether elements can have such values: floating, and with addresses.
bool HasValues(Dtype dtype);

class ValueScan {
 public:
  // tensors[i] is the stored form of layout.tensors[i]. Both must outlive this.
  ValueScan(const Layout& layout, const std::vector<OutputTensor>& tensors);

  // Bytes of a tensor as in Sink::Take: packed, row-major, each once. Thread-safe.
  void Add(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes);

  // Whether every byte of the tensor was seen.
  bool Saw(uint32_t tensor) const { return seen_[tensor] == BytesOf(tensor); }
  // The parameters with something to report, in their order. Call after the last Add.
  std::vector<ParamValues> Params() const;

 private:
  // NaNs and infinities of a piece.
  struct Bad {
    uint64_t nan = 0;
    uint64_t inf = 0;
    int64_t first = 0;
    std::string found;
  };
  using PieceNumber = std::pair<uint32_t, uint32_t>;  // tensor, piece

  void LookAt(PieceNumber piece, int64_t element, std::span<const std::byte> run, bool finite);
  std::atomic<bool>& NonZero(PieceNumber piece) {
    return nonzero_[first_piece_[piece.first] + piece.second];
  }
  uint64_t BytesOf(uint32_t tensor) const;

  const Layout& layout_;
  const std::vector<OutputTensor>& tensors_;
  std::vector<size_t> first_piece_;           // of each tensor, in nonzero_
  std::vector<std::atomic<bool>> nonzero_;    // of each piece: it has such an element
  std::vector<std::atomic<uint32_t>> zeros_;  // of each tensor: pieces without one
  std::vector<std::atomic<uint64_t>> seen_;   // bytes of each tensor
  std::mutex mutex_;
  std::map<PieceNumber, Bad> bad_;
};

// Passes everything on to `next`, and shows it to a scan.
class ValueSink : public Sink {
 public:
  ValueSink(Sink& next, ValueScan& scan) : next_(next), scan_(scan) {}

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    scan_.Add(tensor, offset, bytes);
    return next_.Take(tensor, offset, bytes);
  }
  Status TaskDone(uint64_t task) override { return next_.TaskDone(task); }
  bool IsDone(uint64_t task) const override { return next_.IsDone(task); }

 private:
  Sink& next_;
  ValueScan& scan_;
};

// Whether parameter `param` of the source cannot be all zeros once trained: a matrix of the model,
// or the weight of a norm. Biases, the B of a LoRA adapter, a new score head and an optimizer's
// entries begin as zeros.
bool MayNotBeZero(const BoundArtifact& source, uint32_t param);

// "3 elements are NaN and 1 is infinite"
std::string NotFiniteText(const ParamValues& values);

}  // namespace nxdkit::artifact
