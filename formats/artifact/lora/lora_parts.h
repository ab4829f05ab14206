// Private: what the two forms of adapters, PEFT's and NxD's, are bound with.
#pragma once

#include <map>
#include <string>

#include "formats/artifact/lora/lora.h"

namespace nxdkit::ops {

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight"; "" for another name.
std::string ModuleOf(const std::string& weight);

// Numbers the parameters of an adapter as its pairs become known.
class LoraNumbering {
 public:
  LoraNumbering(const LoraBase& base, BoundArtifact& out, nxd::LoraSharing sharing);

  // The pair of the base's weight `target`. kCorrupt when modules that share one A have different
  // ranks or scales.
  Status AddPair(uint32_t target);
  // A parameter that the adapter holds whole; its number.
  uint32_t AddWhole(uint32_t target);

 private:
  const LoraBase& base_;
  BoundArtifact& out_;
  nxd::LoraSharing sharing_;
  struct Module {
    uint32_t a;
    uint32_t target;  // the first
  };
  std::map<std::string, Module> modules_;
};

// Fills in `out`, whose artifact has its path. The configuration is known.
Status BindPeft(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing);
Status BindLoraSet(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing,
                   const InputHints& hints);

}  // namespace nxdkit::ops
