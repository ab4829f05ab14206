// The distribution of a model over the NeuronCores of a vLLM Neuron engine, and the sizes that it
// cannot distribute. Derived from the sources of the 0.24 line, not run: FORMAT.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/models/model.h"

namespace nxdkit::vllm_neuron {

// Every statement about the engine carries this note.
inline constexpr std::string_view kDerived =
    "derived from the sources of vLLM Neuron 0.24, not run (those of 0.29 were not readable)";

struct Geometry {
  int tp = 1;            // tensor parallel ranks, N
  int ep = 1;            // expert parallel ranks among them, P
  int attention_dp = 1;  // attention data parallel degree, A: there are N A cores

  int cores() const { return tp * attention_dp; }
};

inline constexpr int kMostCores = 10'000;
// kUsage for more cores than the limit.
Status CheckCores(const Geometry& geometry);

// The cores: all ranks of the first data parallel group, then those of the next.
struct Core {
  int dp = 0;
  int rank = 0;  // in the tensor parallel group
};
Core CoreOf(const Geometry& geometry, int number);
std::string CoreText(const Geometry& geometry, int number);  // "rank 3", "dp 1 rank 3"

// The name of a core's parameter in digests: "dp0:tp3:model.norm.weight".
std::string ParamKey(const Geometry& geometry, int core, std::string_view name);

struct ParamPlace {
  Core core;
  std::string name;
};
// The parts of such a key; nullopt for a text of another form.
std::optional<ParamPlace> ParseParamKey(std::string_view key);

// A size that breaks a rule of the engine.
struct SizeFault {
  std::string check;  // "heads", "key heads", "intermediate", "experts"
  std::string message;
  std::string found;
  std::string expected;
  bool has_layout = true;  // the loader would still load something
  bool is_advice = false;  // the vendor's advice, which the loader does not check
};

// Whether attention data parallelism cuts K and V too, into N A parts like Q: when there are more
// key heads than ranks, and N A divides them.
bool CutsKeysOverDp(const models::ModelConfig& config, const Geometry& geometry);

// The assumptions about core numbers that no source confirms, for these sizes; "" for none.
std::string Assumed(const Geometry& geometry);

// All faults of a model at these sizes, in a fixed order.
std::vector<SizeFault> SizeFaults(const models::ModelConfig& config, const Geometry& geometry);

// kUnsupported where it is not known how the engine holds such a model: another family, or a layer
// without experts in a model with them. Names the known families.
Status CheckKnown(const models::Model& model);

}  // namespace nxdkit::vllm_neuron
