// What the two forms of adapters, PEFT's and NxD's, are bound with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::adapter {

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight"; "" for another name.
std::string ModuleOf(const std::string& weight);

// What to do where a tied base would have to become two, for a hint.
inline constexpr char kUntieBase[] =
    "give the base a lm_head.weight of its own (a copy of the embedding), \"tie_word_embeddings\": "
    "false in its config.json, and merge into that";

// What an adapter is bound against: the parameters of its base. `model` is null for a family
// without a table; the adapter can then only be in PEFT's form.
struct LoraBase {
  const std::vector<LogicalTensor>* params = nullptr;
  const models::Model* model = nullptr;
  std::string path;  // for messages
  // Which parameters an NxD set adapts; null: those that it has tensors for. Its modules may store
  // more, as zeros.
  const LoraParts* like = nullptr;
};

// Numbers the parameters of an adapter as its pairs become known.
class LoraNumbering {
 public:
  LoraNumbering(const LoraBase& base, BoundArtifact& out, nxd::LoraSharing sharing);

  // The pair of the base's weight `target`. kCorrupt when modules that share one A have different
  // ranks or scales.
  Status AddPair(uint32_t target);
  // A parameter that the adapter holds whole; its number.
  uint32_t AddWhole(uint32_t target);
  // The magnitude vector of DoRA beside the pair of `target`; its number.
  uint32_t AddMagnitude(uint32_t target);
  // What stands in the place of some rows of `target`; its number.
  uint32_t AddRows(uint32_t target, std::vector<int64_t> rows);

 private:
  uint32_t Number(std::string name, Shape shape);

  const LoraBase& base_;
  BoundArtifact& out_;
  nxd::LoraSharing sharing_;
  struct Module {
    uint32_t a;
    uint32_t target;  // the first
  };
  std::map<std::string, Module> modules_;
};

}  // namespace nxdkit::adapter
