// The metadata.pkl of torch_checkpointing: accepted metadata is consistent, and the parts of a rank
// are inside their tensor, disjoint, and as many elements as its shape has.
#include "formats/dcp/rank_metadata.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  const Result<dcp::RankMetadata> metadata = dcp::ParseRankMetadata(TextOf(data, size));
  if (!metadata.ok()) {
    Require(metadata.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  int looked_at = 0;
  for (const dcp::RankedItem& item : metadata->items)
    for (const dcp::RankedTensor& tensor : item.tensors)
      for (const dcp::ShardGroup& group : tensor.groups)
        for (const int64_t rank : *group.ranks) {
          Require(rank >= 0 && rank < metadata->world_size, "a rank of the world");
          if (++looked_at > 1000) return 0;
          const Result<dcp::LocalShard> shard = group.Of(rank);
          if (!shard.ok()) {
            Require(shard.error().code() != Errc::kInternal, "no bug of ours");
            continue;
          }
          int64_t elements = 0;
          for (const dcp::Part& part : shard->parts) {
            Require(part.box.Volume() > 0, "no part is empty");
            elements += part.box.Volume();
            for (size_t d = 0; d < group.shape.size(); ++d)
              Require(part.box.lo[d] >= 0 && part.local_lo[d] >= 0 &&
                          part.box.lo[d] + part.box.extent[d] <= group.shape[d],
                      "inside of the tensor");
          }
          if (!group.places) continue;  // the boxes are as given
          Require(elements == WholeBox(shard->shape).Volume(), "as many elements as the shape");
          std::vector<Box> boxes;
          for (const dcp::Part& part : shard->parts) boxes.push_back(part.box);
          Require(boxes.size() > 500 || !*FindOverlap(boxes), "disjoint");
        }
  return 0;
}
