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

class TableMaker {
 public:
  TableMaker(const models::Model& model, int tp, int rank) : model_(model) {
    table_.tp = tp;
    table_.rank = rank;
  }

  Result<ParamTable> Make() {
    NXDKIT_TRY(Divide());
    const models::ModelConfig& config = model_.config;
    const int64_t vocab_row = table_.rank * table_.vocab;
    NXDKIT_ASSIGN(table_.embedding, Add("model.embed_tokens.weight",
                                        {.dim = 0, .begin = vocab_row, .count = table_.vocab}));
    for (int64_t layer = 0; layer < config.layers; ++layer) NXDKIT_TRY(AddLayer(layer));
    NXDKIT_ASSIGN(table_.final_norm, Add("model.norm.weight", Whole()));
    if (config.labels > 0) {
      NXDKIT_ASSIGN(table_.score, Add("score.weight", Whole()));
      NXDKIT_ASSIGN(table_.score_bias, AddIf("score.bias", Whole()));
    } else if (!config.tied) {
      NXDKIT_ASSIGN(table_.lm_head,
                    Add("lm_head.weight", {.dim = 0, .begin = vocab_row, .count = table_.vocab}));
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
  struct Cut {
    int dim = -1;
    int64_t begin = 0;
    int64_t count = 0;
    int copies = 1;
    bool partial = false;
    bool adjoins = false;  // no gap before it
  };
  Cut Whole() const { return {.copies = table_.tp}; }

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

  Result<int> Add(const std::string& name, const Cut& cut) {
    const std::optional<uint32_t> param = model_.Find(name);
    if (!param) return Unsupported("the model has no such parameter").on(name);
    Slot slot;
    slot.param = *param;
    slot.shape = model_.params[*param].shape;
    if (cut.dim >= 0) slot.shape[static_cast<size_t>(cut.dim)] = cut.count;
    slot.cut_dim = cut.dim;
    slot.cut_begin = cut.begin;
    slot.copies = cut.copies;
    slot.partial_gradient = cut.partial;
    slot.offset = cut.adjoins ? end_ : Aligned(end_);
    end_ = slot.offset + slot.size();
    table_.slots.push_back(std::move(slot));
    return static_cast<int>(table_.slots.size()) - 1;
  }

  // Where the family has it.
  Result<int> AddIf(const std::string& name, const Cut& cut) {
    if (!model_.Find(name)) return -1;
    return Add(name, cut);
  }

  Status AddLayer(int64_t layer) {
    const models::ModelConfig& config = model_.config;
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const int64_t query_rows = table_.heads * config.head_dim;
    const int64_t key_rows = table_.kv_heads * config.head_dim;
    const Cut query = {.dim = 0, .begin = table_.rank * query_rows, .count = query_rows};
    const bool shared = kv_copies_ > 1;
    Cut key = {.dim = 0,
               .begin = table_.key_group * key_rows,
               .count = key_rows,
               .copies = kv_copies_,
               .partial = shared,
               .adjoins = true};
    const Cut rows = {
        .dim = 0, .begin = table_.rank * table_.intermediate, .count = table_.intermediate};
    Cut up = rows;
    up.adjoins = true;
    Cut head_norm = Whole();
    head_norm.partial = true;
    LayerSlots slots;
    NXDKIT_ASSIGN(slots.input_norm, Add(prefix + "input_layernorm.weight", Whole()));
    NXDKIT_ASSIGN(slots.q, Add(attention + "q_proj.weight", query));
    NXDKIT_ASSIGN(slots.k, Add(attention + "k_proj.weight", key));
    NXDKIT_ASSIGN(slots.v, Add(attention + "v_proj.weight", key));
    NXDKIT_ASSIGN(slots.q_bias, AddIf(attention + "q_proj.bias", query));
    NXDKIT_ASSIGN(slots.k_bias, AddIf(attention + "k_proj.bias", key));
    NXDKIT_ASSIGN(slots.v_bias, AddIf(attention + "v_proj.bias", key));
    NXDKIT_ASSIGN(slots.q_norm, AddIf(attention + "q_norm.weight", head_norm));
    NXDKIT_ASSIGN(slots.k_norm, AddIf(attention + "k_norm.weight", head_norm));
    NXDKIT_ASSIGN(slots.o, Add(attention + "o_proj.weight",
                               {.dim = 1, .begin = query.begin, .count = query_rows}));
    NXDKIT_ASSIGN(slots.o_bias, AddIf(attention + "o_proj.bias", Whole()));
    NXDKIT_ASSIGN(slots.post_norm, Add(prefix + "post_attention_layernorm.weight", Whole()));
    NXDKIT_ASSIGN(slots.gate, Add(mlp + "gate_proj.weight", rows));
    NXDKIT_ASSIGN(slots.up, Add(mlp + "up_proj.weight", up));
    NXDKIT_ASSIGN(slots.gate_bias, AddIf(mlp + "gate_proj.bias", rows));
    NXDKIT_ASSIGN(slots.up_bias, AddIf(mlp + "up_proj.bias", up));
    NXDKIT_ASSIGN(slots.down, Add(mlp + "down_proj.weight",
                                  {.dim = 1, .begin = rows.begin, .count = table_.intermediate}));
    NXDKIT_ASSIGN(slots.down_bias, AddIf(mlp + "down_proj.bias", Whole()));
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
