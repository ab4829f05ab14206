#include "formats/kinds/megatron/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "formats/kinds/megatron/local_tensors.h"
#include "formats/megatron/keys.h"
#include "formats/nxd/optimizer_set.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

using megatron::Key;

constexpr int64_t kAlignment = 64;  // of the start of every parameter in a bucket
constexpr int64_t kProbed = 16;     // elements of every parameter

// One order in which the modules of a layer register their parameters.
struct Order {
  enum class Norm : uint8_t { kFirst, kBeforeQkv, kAfterQkv } norm = Norm::kFirst;
  bool by_projection = false;  // of experts first all linear_fc1, then all linear_fc2
};
constexpr Order kOrders[] = {{Order::Norm::kFirst, false},     {Order::Norm::kBeforeQkv, true},
                             {Order::Norm::kBeforeQkv, false}, {Order::Norm::kAfterQkv, true},
                             {Order::Norm::kAfterQkv, false},  {Order::Norm::kFirst, true}};

constexpr char kInputNorm[] = "input_layernorm.weight";
constexpr char kMlpNorm[] = "pre_mlp_layernorm.weight";

std::vector<std::string_view> AttentionOf(const Order& order) {
  std::vector<std::string_view> names;
  if (order.norm == Order::Norm::kFirst) names.push_back(kInputNorm);
  names.push_back("self_attention.linear_proj.weight");
  if (order.norm == Order::Norm::kBeforeQkv) names.push_back(kInputNorm);
  for (const char* name :
       {"self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias",
        "self_attention.linear_q_proj.weight", "self_attention.linear_q_down_proj.weight"})
    names.push_back(name);
  if (order.norm == Order::Norm::kAfterQkv) names.push_back(kInputNorm);
  // Fused norms of latent attention come before their weights.
  const bool fused = order.norm != Order::Norm::kFirst;
  if (fused) names.push_back("self_attention.linear_q_up_proj.layer_norm_weight");
  names.push_back("self_attention.linear_q_up_proj.weight");
  names.push_back("self_attention.linear_kv_down_proj.weight");
  if (fused) names.push_back("self_attention.linear_kv_up_proj.layer_norm_weight");
  names.push_back("self_attention.linear_kv_up_proj.weight");
  if (!fused)
    for (const char* name :
         {"self_attention.q_layernorm.weight", "self_attention.kv_layernorm.weight"})
      names.push_back(name);
  if (fused) names.push_back("self_attention.q_layernorm.weight");
  names.push_back("self_attention.k_layernorm.weight");
  return names;
}

// The buckets of one buffer: entries of each of the three states, by their numbers.
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
    for (const Order& order : kOrders) {
      std::vector<std::pair<const Buffer*, std::vector<Laid>>> laid;
      tensors_.clear();
      if (!LayAll(order, laid)) continue;
      why = "values";
      NXDKIT_ASSIGN(const bool same, ProbeAll(laid));
      if (!same) continue;
      for (const auto& [buffer, all] : laid) NXDKIT_TRY(AddAll(*buffer, all));
      return std::move(out_);
    }
    return Unsupported(
               "the optimizer's flat buckets are not the parameters in any order that is "
               "known, by their {}",
               why)
        .in(stored_.path)
        .hint(
            "--no-optimizer takes the weights alone; with --dist-ckpt-optim-fully-reshardable "
            "Megatron-LM saves the state by parameters");
  }

 private:
  Status FindBuffers() {
    for (const dcp::StoredEntry& entry : stored_.tensors) {
      const Key key = megatron::ParseKey(entry.key);
      if (key.kind != Key::Kind::kBucket) continue;
      if (key.buffer != 0 || key.chain > 1 || entry.shape.size() != 1 || entry.dtype != Dtype::kF32)
        return Unsupported(
                   "a second buffer of an optimizer's (virtual pipeline stages, two dtypes), or "
                   "one "
                   "that is not flat in F32")
            .in(stored_.path)
            .on(entry.key)
            .hint("--no-optimizer takes the weights alone");
      Buffer& buffer = buffers_[{key.chain, key.group}];
      buffer.chain = key.chain;
      buffer.group = key.group;
      buffer.buckets[key.bucket][key.state] = &entry;
      has_experts_ |= key.chain == 1;
    }
    // By number, each once: from 0 on.
    for (const auto& [id, buffer] : buffers_)
      if (id.second != groups_[id.first]++)
        return Corrupt("there are flat buckets of group {}, and none of group {}", id.second,
                       groups_[id.first] - 1)
            .in(stored_.path);
    for (const auto& [id, buffer] : buffers_)
      for (const auto& [number, states] : buffer.buckets)
        for (const auto& [state, entry] : states)
          if (entry->shape != states.begin()->second->shape)
            return Corrupt("the bucket has {} elements, and its other states {}", entry->shape[0],
                           states.begin()->second->shape[0])
                .in(stored_.path)
                .on(entry->key);
    if (groups_[0] % local_.tp() != 0)
      return Unsupported("flat buckets of {} groups of ranks, and tensors that are cut over {}",
                         groups_[0], local_.tp())
          .in(stored_.path);
    return OkStatus();
  }

  // --- the order of the parameters of a stage

  using List = std::vector<const LocalTensor*>;

  void Push(List& list, const LocalTensors::Place& place, int64_t rank) {
    std::optional<LocalTensor> found = local_.Find(place, rank);
    if (!found) return;
    const auto id = std::tuple(std::string(place.name), place.layer, place.expert, place.mtp, rank);
    list.push_back(&tensors_.emplace(id, *std::move(found)).first->second);
  }

  void PushExperts(List& list, int64_t layer, bool mtp, int64_t first, int64_t end, int64_t rank,
                   const Order& order) {
    constexpr std::array<const char*, 2> kNames = {"mlp.experts.experts.linear_fc1.weight",
                                                   "mlp.experts.experts.linear_fc2.weight"};
    if (order.by_projection) {
      for (const char* name : kNames)
        for (int64_t e = first; e < end; ++e) Push(list, {name, layer, e, mtp}, rank);
      return;
    }
    for (int64_t e = first; e < end; ++e)
      for (const char* name : kNames) Push(list, {name, layer, e, mtp}, rank);
  }

  void PushLayer(List& list, int64_t layer, bool mtp, int64_t rank, const Order& order) {
    for (const std::string_view name : AttentionOf(order)) Push(list, {name, layer, -1, mtp}, rank);
    const bool dense = local_.Find({"mlp.linear_fc1.weight", layer, -1, mtp}, rank).has_value();
    // A norm that is fused with the weight after it comes before or after that.
    const bool last = dense && order.norm == Order::Norm::kAfterQkv;
    if (!last) Push(list, {kMlpNorm, layer, -1, mtp}, rank);
    Push(list, {"mlp.router.weight", layer, -1, mtp}, rank);
    if (!has_experts_) PushExperts(list, layer, mtp, 0, local_.experts(), rank, order);
    for (const char* name :
         {"mlp.shared_experts.gate_weight", "mlp.shared_experts.linear_fc1.weight",
          "mlp.shared_experts.linear_fc2.weight", "mlp.linear_fc1.weight"})
      Push(list, {name, layer, -1, mtp}, rank);
    if (last) Push(list, {kMlpNorm, layer, -1, mtp}, rank);
    Push(list, {"mlp.linear_fc2.weight", layer, -1, mtp}, rank);
  }

  // What the last stage has after its layers.
  void PushEnd(List& list, bool is_first, int64_t rank, const Order& order) {
    Push(list, {"decoder.final_layernorm.weight"}, rank);
    for (int64_t m = 0; m < local_.mtp_layers(); ++m) {
      for (const char* name : {"enorm.weight", "hnorm.weight", "eh_proj.weight"})
        Push(list, {name, m, -1, true}, rank);
      PushLayer(list, m, true, rank, order);
      Push(list, {"final_layernorm.weight", m, -1, true}, rank);
    }
    const size_t before = list.size();
    Push(list, {"output_layer.weight"}, rank);
    // The last stage of a tied model has a copy of the embedding in its place.
    if (list.size() == before && !is_first) Push(list, {"embedding.word_embeddings.weight"}, rank);
  }

  // The stage that has layers [first, end), of rank `rank` of its tensor parallel group.
  List Stage(int64_t first, int64_t end, bool is_first, bool is_last, int64_t rank,
             const Order& order) {
    List list;
    // Multi-token prediction has a copy of the embedding in its stage.
    if (is_first || (is_last && local_.mtp_layers() > 0))
      Push(list, {"embedding.word_embeddings.weight"}, rank);
    for (int64_t layer = first; layer < end; ++layer) PushLayer(list, layer, false, rank, order);
    if (is_last) PushEnd(list, is_first, rank, order);
    return list;
  }

  // The end of the layers of a stage that is not the last one, which fill its buckets.
  std::optional<int64_t> EndOfStage(int64_t first, bool is_first, const Buffer& buffer,
                                    const Order& order) {
    List list = Stage(first, first, is_first, false, 0, order);
    int64_t volume = 0;
    for (const LocalTensor* tensor : list) volume += Volume(*tensor);
    std::vector<Laid> laid;
    for (int64_t end = first; end <= layers_; ++end) {
      const auto slack = static_cast<int64_t>(list.size()) * kAlignment;
      if (volume > buffer.elements()) return std::nullopt;
      if (volume + slack >= buffer.elements() && Lay(list, buffer, laid)) return end;
      const size_t before = list.size();
      if (end < layers_) PushLayer(list, end, false, 0, order);
      for (size_t i = before; i < list.size(); ++i) volume += Volume(*list[i]);
    }
    return std::nullopt;
  }

  // From the last parameter to the first, bucket by bucket; false where the sizes are others.
  static bool Lay(const List& list, const Buffer& buffer, std::vector<Laid>& out) {
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
      // Of a tied model the embedding has a bucket of its own, and the one before it is padded to
      // where it would begin.
      if ((at + kAlignment - 1) / kAlignment * kAlignment < room) continue;
      ++bucket;
      at = 0;
    }
    return bucket == buffer.buckets.end();
  }

  using AllLaid = std::vector<std::pair<const Buffer*, std::vector<Laid>>>;

  // The layers of each stage are those that fill its buckets.
  bool LayAll(const Order& order, AllLaid& out) {
    const int64_t stages = groups_[0] / local_.tp();
    std::vector<std::pair<int64_t, int64_t>> layers;  // of each stage
    int64_t first = 0;
    for (int64_t stage = 0; stage < stages; ++stage) {
      const bool is_last = stage + 1 == stages;
      const std::optional<int64_t> end =
          is_last ? std::optional(layers_)
                  : EndOfStage(first, stage == 0, buffers_[{0, stage * local_.tp()}], order);
      if (!end) return false;
      layers.emplace_back(first, *end);
      first = *end;
    }
    for (auto& [id, buffer] : buffers_) {
      std::vector<Laid> laid;
      if (!LayOne(buffer, layers, order, laid)) return false;
      out.emplace_back(&buffer, std::move(laid));
    }
    return true;
  }

  bool LayOne(const Buffer& buffer, const std::vector<std::pair<int64_t, int64_t>>& layers,
              const Order& order, std::vector<Laid>& laid) {
    const auto stages = static_cast<int64_t>(layers.size());
    if (buffer.chain == 0) {
      const int64_t stage = buffer.group / local_.tp();
      const auto [first, end] = layers[static_cast<size_t>(stage)];
      return Lay(
          Stage(first, end, stage == 0, stage + 1 == stages, buffer.group % local_.tp(), order),
          buffer, laid);
    }
    const int64_t tp = local_.expert_tp();
    if (groups_[1] % (tp * stages) != 0) return false;
    const int64_t ep = groups_[1] / (tp * stages);
    if (local_.experts() % ep != 0) return false;
    const int64_t each = local_.experts() / ep;
    const int64_t rank = buffer.group % tp, part = buffer.group / tp % ep;
    const int64_t stage = buffer.group / (tp * ep);
    if (stage >= stages) return false;
    List list;
    const auto [first, end] = layers[static_cast<size_t>(stage)];
    for (int64_t layer = first; layer < end; ++layer)
      PushExperts(list, layer, false, part * each, (part + 1) * each, rank, order);
    if (stage + 1 == stages)
      for (int64_t m = 0; m < local_.mtp_layers(); ++m)
        PushExperts(list, m, true, part * each, (part + 1) * each, rank, order);
    return Lay(list, buffer, laid);
  }

  // --- values

  // Whether a few master weights of each parameter round to its weights.
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

  // Elements [at, at + volume) of the bucket, which its chunks cut anywhere. What several ranks
  // have alike is taken once.
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
      int64_t done = first - chunk.box.lo[0];
      for (Box& inner : RangeBoxes(box.extent, first - at, end - at)) {
        StoredTensor view = chunk.stored;
        view.shape = inner.extent;
        view.strides = RowMajorStrides(view.shape);
        view.offset += static_cast<uint64_t>(done * ElementBytes(view.dtype));
        done += inner.Volume();
        for (size_t d = 0; d < inner.lo.size(); ++d) inner.lo[d] += box.lo[d];
        made.chunks.push_back({std::move(inner), chunk.file, std::move(view)});
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
  bool has_experts_ = false;                               // their optimizer is another one
  std::map<std::pair<int64_t, int64_t>, Buffer> buffers_;  // by chain and group
  std::map<int64_t, int64_t> groups_;                      // of each chain
  // Those that are laid, by name, layer, expert and rank: their addresses stay.
  std::map<std::tuple<std::string, int64_t, int64_t, bool, int64_t>, LocalTensor> tensors_;
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
