// PRIVATE to formats/kinds/megatron: from Megatron-Core's tensors to the model's parameters, by the
// view "megatron" of the family's text.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/megatron/keys.h"
#include "formats/models/model.h"

namespace nxdkit::kinds {

// The padding rows of a vocabulary, which are in no parameter.
struct CutRows {
  int64_t rows = 0;
  bool zero = true;
};

class MegatronNames {
 public:
  // kUnsupported if the family's text has no such view.
  static Result<MegatronNames> Make(const models::Model& model);

  // Adds the parts of parameters in an entry to `out` under their names; optimizer state under
  // "optimizer.state.NAME.". kUnsupported for a key that the family does not have; kCorrupt for
  // another shape, or for a parameter in two keys.
  Status Add(const dcp::StoredEntry& entry, const megatron::Key& key,
             std::vector<dcp::StoredEntry>& out);

  // The shape of an entry of this key; nullopt if the family has no such key.
  std::optional<Shape> ShapeOf(const megatron::Key& key, const Shape& stored) const;

  const std::map<std::string, CutRows>& cut_rows() const { return cut_rows_; }
  size_t carried() const { return carried_.size(); }  // tensors of multi-token prediction

 private:
  explicit MegatronNames(const models::Model& model) : model_(model) {}
  const TensorLayout* Find(const megatron::Key& key, int64_t layer) const;
  bool IsStacked(const megatron::Key& key) const;  // its first axis is the layers
  // The name of a parameter; for a key of multi-token prediction, whose layer is cut like the last
  // one, its name in that layer.
  std::string NameOf(const models::Param& param, const megatron::Key& key) const;
  Status AddCarried(const dcp::StoredEntry& entry, const megatron::Key& key,
                    std::vector<dcp::StoredEntry>& out);
  Status AddChunk(const dcp::StoredEntry& entry, const dcp::StoredChunk& chunk,
                  const megatron::Key& key, std::vector<dcp::StoredEntry>& out);
  Status AddPart(const TensorLayout& layout, const Box& box, const StoredTensor& view,
                 const dcp::StoredEntry& entry, const dcp::StoredChunk& chunk,
                 const megatron::Key& key, std::vector<dcp::StoredEntry>& out);
  Status ClaimOnce(const dcp::StoredEntry& entry, const megatron::Key& key);
  Status LookAtCutRows(const dcp::StoredEntry& entry, const megatron::Key& key);

  const models::Model& model_;
  std::unordered_map<std::string, TensorLayout> layouts_;  // of one layer, or outside of all
  std::unordered_map<std::string, size_t> numbers_;        // of entries in `out`, by key
  std::map<std::string, std::string> claimed_;             // the key that claimed each tensor
  std::map<std::string, CutRows> cut_rows_;                // by key
  std::set<std::string> carried_;
};

}  // namespace nxdkit::kinds
