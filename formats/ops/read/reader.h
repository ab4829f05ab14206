// Random access to tensors of a layout, whatever their source: the parameters of an artifact, the
// contents of one rank's files of an output, the tensors on a rank of an engine. Nothing is
// written, and a tensor is made when it is read, from the source's own files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/kinds/kind.h"
#include "formats/ops/digest/engine.h"
#include "lib/plan/slice.h"
#include "lib/tensor/output.h"

namespace nxdkit::ops {

using nxdkit::CheckSlice;
using nxdkit::Slice;
using nxdkit::WholeSlice;

// A rank of an output's layout. In a layout with only one kind of rank (FSDP's, a distributed
// checkpoint's) it is `tp`.
struct RankPlace {
  int64_t tp = 0;
  int64_t pp = 0;
  int64_t ep = 0;
};

// Memory: the plan, and during a read a few MiB for each thread. Immutable once made; thread-safe;
// copies share everything.
//
// A file that changes after the reader was made is an error, kCorrupt, when a tensor in it is read.
// `opened`, a reader made when the source was opened, has the state of its files at that time;
// nullptr: they are looked at now.
class TensorReader {
 public:
  // The parameters, whole, under their own names, in the order of source->params: the model's
  // first. kCorrupt for a parameter that is not stored.
  static Result<TensorReader> OfParameters(std::shared_ptr<const BoundArtifact> source);

  // The tensors in the files of one rank of an output of `kind`, in their order, as Convert writes
  // them: with replicas and padding, weights only. Files that belong to no rank belong to every
  // one. kUsage for a rank that no file has; else as DecideOutput, PlanOutput (for which
  // `max_memory` is) and BuildPlan.
  static Result<TensorReader> OfRank(std::shared_ptr<const BoundArtifact> source, const Kind& kind,
                                     const OutputOptions& options, RankPlace rank,
                                     uint64_t max_memory, const TensorReader* opened = nullptr);

  // The tensors of an engine's rank (LayoutOfEngine, LayoutOfNeuron), in `dtype`. kUnsupported as
  // the layout, and for a model that is not known.
  static Result<TensorReader> OfEngine(std::shared_ptr<const BoundArtifact> source,
                                       const RankLayout& layout, int rank, Dtype dtype,
                                       const TensorReader* opened = nullptr);

  const std::vector<OutputTensor>& tensors() const;
  const BoundArtifact& source() const;

  // The bytes of a slice, packed row-major, little-endian, into `to`. kUsage for a tensor or a
  // slice that does not exist, and if the size of `to` is not the slice's; kUnsupported for an
  // element type that cannot be made, and for a part of a tensor whose elements are smaller than a
  // byte. After an error the contents of `to` are undefined.
  Status Read(size_t tensor, const Slice& slice, std::span<std::byte> to) const;

  // The source of every element of a tensor, as nxd-convert --explain prints it.
  std::string Explain(size_t tensor) const;

 private:
  struct State;
  explicit TensorReader(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static Result<TensorReader> Make(State state, const TensorReader* opened);
  Status ReadChunk(size_t tensor, const Slice& slice, const Shape& strides, std::byte* to) const;
  Status ReadBytes(size_t tensor, const Slice& slice, std::span<std::byte> to) const;

  std::shared_ptr<const State> state_;  // shared by copies
};

}  // namespace nxdkit::ops
