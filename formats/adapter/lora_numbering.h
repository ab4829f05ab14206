// The common parts of binding PEFT's and NxD's forms of adapters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::adapter {

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight"; "" for other names.
std::string ModuleOf(const std::string& weight);

// A hint for a tied base whose two names would have to differ.
inline constexpr char kUntieBase[] =
    "give the base a lm_head.weight of its own (a copy of the embedding), \"tie_word_embeddings\": "
    "false in its config.json, and merge into that";

// The base that an adapter is bound against, by its parameters. `model` is null for a family
// without a table; the adapter must then be in PEFT's form.
struct LoraBase {
  const std::vector<LogicalTensor>* params = nullptr;
  const models::Model* model = nullptr;
  std::string path;  // for messages
  // The parameters that an NxD set adapts; null: those for which it has tensors. Its modules may
  // store more, as zeros.
  const LoraParts* like = nullptr;
};

// Numbers the parameters of an adapter as its pairs become known.
class LoraNumbering {
 public:
  LoraNumbering(const LoraBase& base, BoundArtifact& out, nxd::LoraSharing sharing);

  // Adds the pair of the base's weight `target`. kCorrupt if modules that share one A have
  // different ranks or scales.
  Status AddPair(uint32_t target);
  // Adds a parameter that the adapter stores whole; returns its number.
  uint32_t AddWhole(uint32_t target);
  // Adds DoRA's magnitude vector for the pair of `target`; returns its number.
  uint32_t AddMagnitude(uint32_t target);
  // Adds the replacement for some rows of `target`; returns its number.
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
