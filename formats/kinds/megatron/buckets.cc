#include "formats/kinds/megatron/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "formats/kinds/megatron/bucket_order.h"
#include "formats/kinds/megatron/local_tensors.h"
#include "formats/megatron/keys.h"
#include "formats/nxd/optimizer_set.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;

constexpr int64_t kAlignment = 64;  // of the start of every parameter in a bucket
constexpr int64_t kProbed = 16;     // elements of every parameter

// The buckets of one buffer: the entries of each of the three states, by number.
struct Buffer {
  int64_t chain = 0;
  int64_t group = 0;
  std::map<int64_t, std::map<std::string, const dcp::StoredEntry*>> buckets;

  int64_t elements() const {
    int64_t sum = 0;
    for (const auto& [number, states] : buckets) sum += states.begin()->second->shape[0];
    return sum;
  }
};

// A rank's tensor in a bucket.
struct Laid {
  const LocalTensor* tensor = nullptr;
  int64_t bucket = 0;
  int64_t at = 0;
};

int64_t Volume(const LocalTensor& tensor) {
  int64_t sum = 0;
  for (const LocalPart& part : tensor) sum += part.chunk->box.Volume();
  return sum;
}

class Joiner {
 public:
  Joiner(const dcp::Folder& stored, int64_t layers)
      : stored_(stored), layers_(layers), local_(stored) {}

  Result<std::vector<dcp::StoredEntry>> Run() {
    NXDKIT_TRY(FindBuffers());
    std::string why = "sizes";
    for (const RegistrationOrder& order : RegistrationOrders()) {
      AllLaid laid;
      StageLists lists(local_, order, has_experts_);
      if (!LayAll(lists, laid)) continue;
      why = "values";
      NXDKIT_ASSIGN(const bool same, ProbeAll(laid));
      if (!same) continue;
      for (const auto& [buffer, all] : laid) NXDKIT_TRY(AddAll(*buffer, all));
      return std::move(out_);
    }
    return Unsupported(
               "by their {}, the optimizer's flat buckets are not the parameters in any known "
               "order",
               why)
        .in(stored_.path)
        .hint(
            "--no-optimizer reads only the weights; with --dist-ckpt-optim-fully-reshardable "
            "Megatron-LM saves the state by parameters");
  }

 private:
  Status FindBuffers() {
    for (const dcp::StoredEntry& entry : stored_.tensors) {
      const Key key = megatron::ParseKey(entry.key);
      if (key.kind != Key::Kind::kBucket) continue;
      if (key.buffer != 0 || key.chain > 1 || entry.shape.size() != 1 || entry.dtype != Dtype::kF32)
        return Unsupported(
                   "an optimizer has a second buffer (virtual pipeline stages, two dtypes), or one "
                   "that is not flat in F32")
            .in(stored_.path)
            .on(entry.key)
            .hint("--no-optimizer reads only the weights");
      Buffer& buffer = buffers_[{key.chain, key.group}];
      buffer.chain = key.chain;
      buffer.group = key.group;
      buffer.buckets[key.bucket][key.state] = &entry;
      has_experts_ |= key.chain == 1;
    }
    // By number, each once, from 0 on.
    for (const auto& [id, buffer] : buffers_)
      if (id.second != groups_[id.first]++)
        return Corrupt("there are flat buckets of group {}, but none of group {}", id.second,
                       groups_[id.first] - 1)
            .in(stored_.path);
    for (const auto& [id, buffer] : buffers_)
      for (const auto& [number, states] : buffer.buckets)
        for (const auto& [state, entry] : states)
          if (entry->shape != states.begin()->second->shape)
            return Corrupt("the bucket has {} elements, but its other states {}", entry->shape[0],
                           states.begin()->second->shape[0])
                .in(stored_.path)
                .on(entry->key);
    if (groups_[0] == 0 || groups_[0] % local_.tp() != 0)
      return Unsupported("flat buckets of {} groups of ranks, and tensors that are cut over {}",
                         groups_[0], local_.tp())
          .in(stored_.path);
    return OkStatus();
  }

  // --- the layers of each stage

  // The end of the layers that fill the buckets of a stage other than the last.
  std::optional<int64_t> EndOfStage(int64_t first, bool is_first, const Buffer& buffer,
                                    StageLists& lists) const {
    ParameterList list = lists.Stage({first, first, is_first, false}, 0);
    int64_t volume = 0;
    for (const LocalTensor* tensor : list) volume += Volume(*tensor);
    std::vector<Laid> laid;
    for (int64_t end = first; end <= layers_; ++end) {
      const auto slack = static_cast<int64_t>(list.size()) * kAlignment;
      if (volume > buffer.elements()) return std::nullopt;
      if (volume + slack >= buffer.elements() && Lay(list, buffer, laid)) return end;
      const size_t before = list.size();
      if (end < layers_) lists.AddLayer(list, end, 0);
      for (size_t i = before; i < list.size(); ++i) volume += Volume(*list[i]);
    }
    return std::nullopt;
  }

  // Lays the parameters out from the last to the first, bucket by bucket; false if the sizes
  // differ.
  static bool Lay(const ParameterList& list, const Buffer& buffer, std::vector<Laid>& out) {
    out.clear();
    auto bucket = buffer.buckets.begin();
    int64_t at = 0;
    for (auto tensor = list.rbegin(); tensor != list.rend(); ++tensor) {
      if (bucket == buffer.buckets.end()) return false;
      const int64_t room = bucket->second.begin()->second->shape[0];
      const int64_t count = Volume(**tensor);
      at = (at + kAlignment - 1) / kAlignment * kAlignment;
      if (count > room - at) return false;
      out.push_back({*tensor, bucket->first, at});
      at += count;
      // A tied model's embedding has a bucket of its own, and the one before it is padded to where
      // it would begin.
      if ((at + kAlignment - 1) / kAlignment * kAlignment < room) continue;
      ++bucket;
      at = 0;
    }
    return bucket == buffer.buckets.end();
  }

  using AllLaid = std::vector<std::pair<const Buffer*, std::vector<Laid>>>;

  // The layers of each stage are those that fill its buckets.
  bool LayAll(StageLists& lists, AllLaid& out) const {
    const int64_t stages = groups_.at(0) / local_.tp();
    std::vector<StageLayers> layers;  // by stage
    int64_t first = 0;
    for (int64_t stage = 0; stage < stages; ++stage) {
      const bool is_last = stage + 1 == stages;
      const std::optional<int64_t> end =
          is_last ? std::optional(layers_)
                  : EndOfStage(first, stage == 0, buffers_.at({0, stage * local_.tp()}), lists);
      if (!end) return false;
      layers.push_back({first, *end, stage == 0, is_last});
      first = *end;
    }
    for (const auto& [id, buffer] : buffers_) {
      std::vector<Laid> laid;
      if (!LayOne(buffer, layers, lists, laid)) return false;
      out.emplace_back(&buffer, std::move(laid));
    }
    return true;
  }

  bool LayOne(const Buffer& buffer, const std::vector<StageLayers>& stages, StageLists& lists,
              std::vector<Laid>& laid) const {
    if (buffer.chain == 0) {
      const StageLayers& stage = stages[static_cast<size_t>(buffer.group / local_.tp())];
      return Lay(lists.Stage(stage, buffer.group % local_.tp()), buffer, laid);
    }
    // Experts have groups of their own: the tensor parallel rank first, then the expert parallel
    // one, then the stage.
    const auto per_part = local_.expert_tp() * static_cast<int64_t>(stages.size());
    const int64_t groups = groups_.at(1);
    const int64_t ep = groups / per_part;
    if (groups % per_part != 0 || local_.experts() % ep != 0) return false;
    const int64_t each = local_.experts() / ep;
    const int64_t part = buffer.group / local_.expert_tp() % ep;
    const auto stage = static_cast<size_t>(buffer.group / (local_.expert_tp() * ep));
    return Lay(lists.Experts(stages[stage], part * each, (part + 1) * each,
                             buffer.group % local_.expert_tp()),
               buffer, laid);
  }

  // --- values

  // Whether a sample of each parameter's master weights rounds to its weights.
  Result<bool> ProbeAll(const AllLaid& all) const {
    for (const auto& [buffer, laid] : all)
      for (const Laid& each : laid) {
        NXDKIT_ASSIGN(const bool same, Probe(*buffer, each));
        if (!same) return false;
      }
    return true;
  }

  Result<bool> Probe(const Buffer& buffer, const Laid& laid) const {
    const auto& states = buffer.buckets.at(laid.bucket);
    const auto masters = states.find(nxd::kMasterWeights);
    if (masters == states.end()) return false;
    const StoredTensor& weight = laid.tensor->front().chunk->stored;
    if (!IsPacked(weight) || !Info(weight.dtype).floating) return false;
    for (const dcp::StoredChunk& chunk : masters->second->chunks) {
      const int64_t first = chunk.box.lo[0];
      if (laid.at < first || laid.at >= first + chunk.box.extent[0]) continue;
      const int64_t count = std::min({kProbed, laid.tensor->front().chunk->box.Volume(),
                                      first + chunk.box.extent[0] - laid.at});
      std::vector<std::byte> found(static_cast<size_t>(count) * 4);
      std::vector<std::byte> expected(static_cast<size_t>(count * ElementBytes(weight.dtype)));
      std::vector<std::byte> rounded(expected.size());
      NXDKIT_TRY(chunk.stored.storage->ReadAt(
          chunk.stored.offset + static_cast<uint64_t>(laid.at - first) * 4, found));
      NXDKIT_TRY(weight.storage->ReadAt(weight.offset, expected));
      ConvertElements(Dtype::kF32, found.data(), weight.dtype, rounded.data(),
                      static_cast<size_t>(count));
      return rounded == expected;
    }
    return false;
  }

  // --- the entries by parameters

  Status AddAll(const Buffer& buffer, const std::vector<Laid>& all) {
    for (const Laid& laid : all)
      for (const auto& [state, entry] : buffer.buckets.at(laid.bucket)) {
        int64_t at = laid.at;
        for (const LocalPart& part : *laid.tensor) {
          NXDKIT_TRY(AddPart(part, state, *entry, at));
          at += part.chunk->box.Volume();
        }
      }
    return OkStatus();
  }

  // Adds elements [at, at + volume) of the bucket, which its chunks cut anywhere. Copies on several
  // ranks are taken once.
  Status AddPart(const LocalPart& part, const std::string& state, const dcp::StoredEntry& bucket,
                 int64_t at) {
    const Box& box = part.chunk->box;
    if (!added_.insert({part.chunk, state}).second) return OkStatus();
    std::string key = fmt::format("optimizer.state.{}.{}", state, part.entry->key);
    const auto [number, is_new] = numbers_.emplace(key, out_.size());
    if (is_new) out_.push_back({std::move(key), bucket.dtype, part.entry->shape, {}});
    dcp::StoredEntry& made = out_[number->second];
    int64_t covered = 0;
    for (const dcp::StoredChunk& chunk : bucket.chunks) {
      const int64_t first = std::max(at, chunk.box.lo[0]);
      const int64_t end = std::min(at + box.Volume(), chunk.box.lo[0] + chunk.box.extent[0]);
      if (first >= end) continue;
      StoredTensor flat = chunk.stored;
      flat.offset += static_cast<uint64_t>((first - chunk.box.lo[0]) * ElementBytes(flat.dtype));
      for (dcp::StoredChunk& inner :
           dcp::ChunksOfRange(box.extent, first - at, end - at, std::move(flat), chunk.file)) {
        for (size_t d = 0; d < inner.box.lo.size(); ++d) inner.box.lo[d] += box.lo[d];
        made.chunks.push_back(std::move(inner));
      }
      covered += end - first;
    }
    if (covered == box.Volume()) return OkStatus();
    return Corrupt("{} of {} elements are in the bucket", covered, box.Volume())
        .in(stored_.path)
        .on(bucket.key);
  }

  const dcp::Folder& stored_;
  int64_t layers_;
  LocalTensors local_;
  bool has_experts_ = false;                               // with an optimizer of their own
  std::map<std::pair<int64_t, int64_t>, Buffer> buffers_;  // by chain and group
  std::map<int64_t, int64_t> groups_;                      // of each chain
  std::vector<dcp::StoredEntry> out_;
  std::map<std::string, size_t> numbers_;
  std::set<std::pair<const dcp::StoredChunk*, std::string>> added_;
};

}  // namespace

bool HasBuckets(const dcp::Folder& stored) {
  return std::ranges::any_of(stored.tensors, [](const dcp::StoredEntry& entry) {
    return megatron::ParseKey(entry.key).kind == Key::Kind::kBucket;
  });
}

Result<std::vector<dcp::StoredEntry>> JoinBuckets(const dcp::Folder& stored, int64_t layers) {
  return Joiner(stored, layers).Run();
}

}  // namespace nxdkit::kinds
