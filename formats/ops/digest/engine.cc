#include "formats/ops/digest/engine.h"
#include "formats/kinds/open.h"

#include <algorithm>
#include <map>

#include "formats/ops/verify/compare.h"
#include "lib/base/errors.h"
#include "lib/base/parallel.h"
#include "lib/hash/sha256_pair.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kStagingBytes = 1 << 20;
constexpr uint64_t kItemBytes = 1 << 20;  // of the chunks that are hashed side by side
constexpr uint64_t kLeastChunk = 32 << 10;

// Tensors of one size, made and hashed chunk by chunk, side by side: the ranks' parts of one
// parameter share the bytes read, and two messages at once are hashed at twice the speed.
using Item = std::vector<uint32_t>;

class EngineDigester {
 public:
  EngineDigester(const BoundArtifact& artifact, Dtype dtype, const RunOptions& run)
      : artifact_(artifact), dtype_(dtype), run_(run) {}

  void Add(int rank, std::vector<TensorLayout> tensors) {
    if (rank > 0) NXDKIT_CHECK(tensors.size() == first_rank_);
    if (rank == 0) first_rank_ = tensors.size();
    for (size_t i = 0; i < tensors.size(); ++i) {
      params_.push_back({rank, tensors[i].name, tensors[i].shape, {}});
      const bool replica = rank > 0 && tensors[i].pieces == layout_.tensors[i].pieces &&
                           tensors[i].shape == layout_.tensors[i].shape;
      made_by_.push_back(replica ? static_cast<uint32_t>(i)
                                 : static_cast<uint32_t>(layout_.tensors.size()));
      if (!replica) layout_.tensors.push_back(std::move(tensors[i]));
    }
  }

  Result<std::vector<EngineParam>> Run() {
    layout_.files.push_back({});
    NXDKIT_ASSIGN(plan_, BuildPlan(artifact_.params, artifact_.bound, layout_));
    uint64_t total = 0;
    for (const TensorLayout& tensor : layout_.tensors) {
      const Dtype dtype = tensor.dtype.value_or(dtype_);
      outputs_.push_back({tensor.name, dtype, tensor.shape});
      NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(dtype, tensor.shape));
      bytes_.push_back(bytes);
      total += bytes;
    }
    digests_.resize(outputs_.size());
    const std::vector<Item> items = MakeItems();
    size_t widest = 2;
    for (const Item& item : items) widest = std::max(widest, item.size());
    const uint64_t buffers = widest * ChunkBytes(widest);
    NXDKIT_ASSIGN(const ExecuteOptions options,
                  MakeAlignedOptions(run_, kLeastChunk, buffers + kStagingBytes));
    if (run_.begin) run_.begin("hashing parameters", total);
    NXDKIT_TRY(ParallelFor(items.size(), options.jobs, [&](size_t i) { return Hash(items[i]); }));
    for (size_t i = 0; i < params_.size(); ++i) params_[i].digest = digests_[made_by_[i]];
    return std::move(params_);
  }

 private:
  static uint64_t ChunkBytes(size_t width) {
    return std::max(kLeastChunk, kItemBytes / std::max<size_t>(width, 1) / 64 * 64);
  }

  // The largest first, so that the threads end together.
  std::vector<Item> MakeItems() const {
    std::map<std::pair<std::string, uint64_t>, Item> parts;
    for (uint32_t t = 0; t < outputs_.size(); ++t)
      parts[{outputs_[t].name, bytes_[t]}].push_back(t);
    std::vector<Item> items;
    std::map<uint64_t, uint32_t> alone;  // by size: waits for a second one
    for (auto& [key, item] : parts) {
      if (item.size() > 1) {
        items.push_back(std::move(item));
      } else if (const auto other = alone.find(key.second); other != alone.end()) {
        items.push_back({other->second, item[0]});
        alone.erase(other);
      } else {
        alone.emplace(key.second, item[0]);
      }
    }
    for (const auto& [bytes, tensor] : alone) items.push_back({tensor});
    std::ranges::stable_sort(items, std::greater(),
                             [&](const Item& item) { return item.size() * bytes_[item[0]]; });
    return items;
  }

  Status Hash(const Item& item) {
    Gatherer gatherer(kStagingBytes);
    const uint64_t chunk = ChunkBytes(std::max<size_t>(item.size(), 2));
    const uint64_t bytes = bytes_[item[0]];
    std::vector<std::byte> buffer(item.size() * std::min(chunk, bytes));
    std::vector<Sha256Both> hashers((item.size() + 1) / 2);
    for (uint64_t at = 0; at < bytes; at += chunk) {
      if (run_.poll) NXDKIT_TRY(run_.poll());
      const uint64_t size = std::min(chunk, bytes - at);
      NXDKIT_TRY(Make(item, at, size, buffer, gatherer));
      const auto part = [&](size_t i) {  // an odd one is paired with itself
        return std::span(buffer).subspan(std::min(i, item.size() - 1) * size, size);
      };
      for (size_t pair = 0; pair < hashers.size(); ++pair)
        hashers[pair].Update(part(2 * pair), part(2 * pair + 1));
      if (run_.on_bytes) run_.on_bytes(size * item.size());
    }
    for (size_t i = 0; i < item.size(); i += 2) {
      const std::array<Sha256Bytes, 2> both = hashers[i / 2].Finish();
      digests_[item[i]] = both[0];
      if (i + 1 < item.size()) digests_[item[i + 1]] = both[1];
    }
    return OkStatus();
  }

  // Makes the bytes [at, at + size) of each tensor of the item, one after the other.
  Status Make(const Item& item, uint64_t at, uint64_t size, std::span<std::byte> buffer,
              Gatherer& gatherer) const {
    std::vector<Move> moves;
    for (size_t i = 0; i < item.size(); ++i) {
      const OutputTensor& output = outputs_[item[i]];
      const int64_t element = ElementBytes(output.dtype);
      const int64_t first = static_cast<int64_t>(at) / element;
      const int64_t end = static_cast<int64_t>(at + size) / element;
      AddRangeMoves(plan_.tensors[item[i]], artifact_.bound, output, first,
                    RangeBoxes(output.shape, first, end), buffer.data() + i * size, moves);
    }
    return gatherer.Run(std::move(moves));
  }

  const BoundArtifact& artifact_;
  const Dtype dtype_;
  const RunOptions& run_;
  size_t first_rank_ = 0;
  std::vector<EngineParam> params_;
  std::vector<uint32_t> made_by_;  // for each parameter: the tensor that it is, or a copy of
  Layout layout_;
  Plan plan_;
  std::vector<OutputTensor> outputs_;
  std::vector<uint64_t> bytes_;
  std::vector<Sha256Bytes> digests_;
};

}  // namespace

RankLayout LayoutOfEngine(const vllm::Geometry& geometry) {
  return [geometry](const models::Model& model, int rank) -> Result<std::vector<TensorLayout>> {
    if (rank < 0 || rank >= geometry.tp)
      return BadUsage("rank {} of the engine, expected 0 to {}", rank, geometry.tp - 1);
    return vllm::RankTensors(model, geometry, rank);
  };
}

Result<std::vector<TensorLayout>> TensorsOfRank(const BoundArtifact& artifact,
                                                const RankLayout& layout, int rank) {
  if (artifact.model && !artifact.lora) return layout(*artifact.model, rank);
  return Unsupported("predicting an engine needs a model with a config.json that is known")
      .in(artifact.artifact.path);
}

Result<std::vector<EngineParam>> DigestForEngine(const BoundArtifact& artifact,
                                                 const vllm::Geometry& geometry, Dtype dtype,
                                                 const RunOptions& run) {
  return DigestRanks(artifact, geometry.tp, LayoutOfEngine(geometry), dtype, run);
}

Result<std::vector<EngineParam>> DigestRanks(const BoundArtifact& artifact, int ranks,
                                             const RankLayout& layout, Dtype dtype,
                                             const RunOptions& run) {
  EngineDigester digester(artifact, dtype, run);
  for (int rank = 0; rank < ranks; ++rank) {
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors, TensorsOfRank(artifact, layout, rank));
    digester.Add(rank, std::move(tensors));
  }
  return digester.Run();
}

Result<EngineDigests> DigestForEngine(const EngineRequest& request) {
  return DigestRanks(request, request.geometry.tp, LayoutOfEngine(request.geometry));
}

Result<EngineDigests> DigestRanks(const EngineSource& source, int ranks, const RankLayout& layout) {
  EngineDigests out;
  NXDKIT_ASSIGN(const BoundArtifact artifact, OpenAndBind(source.path, source.kind, source.hints));
  out.kind = artifact.artifact.kind;
  out.AddSaid(artifact.artifact);
  out.left_out = artifact.left_out;
  if (artifact.artifact.config) {
    out.model_type = artifact.artifact.config->model_type;
    out.dtype = source.dtype.value_or(vllm::EngineDtype(*artifact.artifact.config));
  }
  for (size_t i = 0; i < artifact.model_params(); ++i)
    out.elements += static_cast<uint64_t>(ElementCount(artifact.params[i].shape).value_or(0));
  NXDKIT_TRY(RequireSound(artifact, source.run));
  NXDKIT_ASSIGN(out.params, DigestRanks(artifact, ranks, layout, out.dtype, source.run));
  return out;
}

}  // namespace nxdkit::ops
