#include "trainer/model/param_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

constexpr int64_t kAlign = 16;  // elements: a cache line of f32

// The slots of one layer in their order.
struct LayerRow {
  int LayerSlots::*slot;
  const char* name;
  bool optional = false;  // absent in some families
};
constexpr LayerRow kLayerRows[] = {
    {&LayerSlots::input_norm, "input_layernorm.weight"},
    {&LayerSlots::q, "self_attn.q_proj.weight"},
    {&LayerSlots::k, "self_attn.k_proj.weight"},
    {&LayerSlots::v, "self_attn.v_proj.weight"},
    {&LayerSlots::q_bias, "self_attn.q_proj.bias", true},
    {&LayerSlots::k_bias, "self_attn.k_proj.bias", true},
    {&LayerSlots::v_bias, "self_attn.v_proj.bias", true},
    {&LayerSlots::q_norm, "self_attn.q_norm.weight", true},
    {&LayerSlots::k_norm, "self_attn.k_norm.weight", true},
    {&LayerSlots::o, "self_attn.o_proj.weight"},
    {&LayerSlots::o_bias, "self_attn.o_proj.bias", true},
    {&LayerSlots::post_norm, "post_attention_layernorm.weight"},
    {&LayerSlots::gate, "mlp.gate_proj.weight"},
    {&LayerSlots::up, "mlp.up_proj.weight"},
    {&LayerSlots::gate_bias, "mlp.gate_proj.bias", true},
    {&LayerSlots::up_bias, "mlp.up_proj.bias", true},
    {&LayerSlots::down, "mlp.down_proj.weight"},
    {&LayerSlots::down_bias, "mlp.down_proj.bias", true},
};

class TableMaker {
 public:
  TableMaker(const models::Model& model, int tp, int rank) : model_(model) {
    table_.tp = tp;
    table_.rank = rank;
  }

  Result<ParamTable> Make() {
    NXDKIT_TRY(Divide());
    const models::ModelConfig& config = model_.config;
    NXDKIT_ASSIGN(table_.embedding, Add("model.embed_tokens.weight"));
    for (int64_t layer = 0; layer < config.layers; ++layer) NXDKIT_TRY(AddLayer(layer));
    NXDKIT_ASSIGN(table_.final_norm, Add("model.norm.weight"));
    if (config.labels > 0) {
      NXDKIT_ASSIGN(table_.score, Add("score.weight"));
      NXDKIT_ASSIGN(table_.score_bias, Add("score.bias", true));
    } else if (!config.tied) {
      NXDKIT_ASSIGN(table_.lm_head, Add("lm_head.weight"));
    }
    table_.size = Aligned(end_);
    if (table_.slots.size() == model_.params.size()) return std::move(table_);
    std::vector<bool> seen(model_.params.size());
    for (const Slot& slot : table_.slots) seen[slot.param] = true;
    const size_t first =
        static_cast<size_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
    return Unsupported("the trainer has no place for this parameter").on(model_.params[first].name);
  }

 private:
  static int64_t Aligned(int64_t at) { return (at + kAlign - 1) / kAlign * kAlign; }

  Status Divide() {
    const models::ModelConfig& config = model_.config;
    const int tp = table_.tp;
    const auto check = [&](int64_t value, const char* what) -> Status {
      if (value % tp == 0) return OkStatus();
      return Unsupported("{} {} cannot be divided over {} tensor parallel ranks", value, what, tp);
    };
    NXDKIT_TRY(check(config.heads, "attention heads"));
    NXDKIT_TRY(check(config.intermediate, "rows of the MLP"));
    NXDKIT_TRY(check(config.vocab, "rows of the vocabulary"));
    if (config.kv_heads % tp != 0 && tp % config.kv_heads != 0)
      return Unsupported(
          "{} key/value heads and {} tensor parallel ranks: neither is a multiple of the other",
          config.kv_heads, tp);
    table_.heads = config.heads / tp;
    table_.kv_heads = std::max<int64_t>(1, config.kv_heads / tp);
    kv_copies_ = static_cast<int>(std::max<int64_t>(1, tp / config.kv_heads));
    table_.key_group = table_.rank / kv_copies_;
    table_.intermediate = config.intermediate / tp;
    table_.vocab = config.vocab / tp;
    return OkStatus();
  }

  // Fused parameters are adjacent, without a gap.
  Result<int> Add(const std::string& name, bool optional = false) {
    const std::optional<uint32_t> index = model_.Find(name);
    if (!index && optional) return -1;
    if (!index) return Unsupported("the model has no such parameter").on(name);
    const models::Param& param = model_.params[*index];
    const models::RoleRow& role = models::RowOf(param.role);
    Slot slot = {.param = *index, .shape = param.shape, .cut_dim = param.CutDim()};
    slot.copies = table_.tp;
    if (slot.cut_dim >= 0) {
      slot.copies = role.unit == models::Unit::kKeyHead ? kv_copies_ : 1;
      int64_t& extent = slot.shape[static_cast<size_t>(slot.cut_dim)];
      extent = extent * slot.copies / table_.tp;
      slot.cut_begin = table_.rank / slot.copies * extent;
    }
    // The bias of a product cut by columns is added to the sum of all ranks: each has its full
    // gradient.
    slot.partial_gradient =
        models::IsHead(role.unit) && slot.copies > 1 && param.role != models::Role::kOutput;
    slot.offset = param.Leads() ? Aligned(end_) : end_;
    end_ = slot.offset + slot.size();
    table_.slots.push_back(std::move(slot));
    return static_cast<int>(table_.slots.size()) - 1;
  }

  Status AddLayer(int64_t layer) {
    LayerSlots slots;
    for (const LayerRow& row : kLayerRows) {
      const std::string name = fmt::format("model.layers.{}.{}", layer, row.name);
      NXDKIT_ASSIGN(slots.*row.slot, Add(name, row.optional));
    }
    table_.layers.push_back(slots);
    return OkStatus();
  }

  const models::Model& model_;
  ParamTable table_;
  int kv_copies_ = 1;
  int64_t end_ = 0;
};

}  // namespace

int64_t Slot::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Result<ParamTable> MakeParamTable(const models::Model& model, int tp, int rank) {
  return TableMaker(model, tp, rank).Make();
}

std::vector<FlatRange> CutByLayers(const ParamTable& table, int64_t least) {
  std::vector<FlatRange> parts;
  int64_t end = table.size;
  const auto cut_at = [&](int64_t begin) {
    if (end - begin < std::max<int64_t>(least, 1) || begin < least) return;
    parts.push_back({begin, end});
    end = begin;
  };
  cut_at(table.at(table.final_norm).offset);
  for (size_t l = table.layers.size(); l-- > 0;)
    cut_at(table.at(table.layers[l].input_norm).offset);
  parts.push_back({0, end});
  std::ranges::reverse(parts);
  return parts;
}

Layout MemoryLayout(const models::Model& model, const std::vector<ParamTable>& ranks) {
  Layout layout;
  for (const ParamTable& table : ranks) {
    const uint32_t file = static_cast<uint32_t>(layout.files.size());
    layout.files.push_back({fmt::format("memory of rank {}", table.rank), table.rank, 0});
    for (const Slot& slot : table.slots) {
      const models::Param& param = model.params[slot.param];
      TensorLayout tensor;
      tensor.name = param.name;
      tensor.file = file;
      tensor.shape = slot.shape;
      if (slot.cut_dim < 0)
        AddWhole(tensor, slot.param, param.shape);
      else if (slot.cut_dim == 0)
        AddRows(tensor, slot.param, param.shape, slot.cut_begin, slot.shape[0], 0);
      else
        AddColumns(tensor, slot.param, param.shape, slot.cut_begin, slot.shape[1], 0);
      layout.tensors.push_back(std::move(tensor));
    }
  }
  return layout;
}

}  // namespace nxdkit::trainer
