// The form and contents of an artifact, derived from names, shapes and configuration: the answer of
// ckpt-inspect. Nothing that is read is executed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/kinds/kind.h"
#include "formats/kinds/survey.h"
#include "formats/neff/payload.h"
#include "lib/system/mount.h"

namespace nxdkit::ops {

// The place of a tensor in Survey::artifact.files.
struct TensorPlace {
  uint32_t file = 0;
  uint32_t index = 0;
};

struct DtypeUse {
  Dtype dtype = Dtype::kF32;
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

// Whether every stored tensor has its place in the layout of the family.
struct LayoutCheck {
  enum class Outcome : uint8_t { kFits, kDoesNotFit, kNotChecked };
  Outcome outcome = Outcome::kNotChecked;
  std::string message;              // why not checked; what does not fit; "" if complete
  uint64_t parameters = 0;          // of the model, if it fits
  uint64_t missing_parameters = 0;  // of those, not stored in this artifact
  // Numbers of stored names that are not parameters.
  uint64_t aliases = 0;  // of parameters
  uint64_t ignored = 0;  // buffers that the family may lose
  uint64_t carried = 0;  // tensors that the family keeps as they are
};

// A compiled graph, in a file of its own or inside model.pt.
struct NeffFacts {
  std::string record;  // of the archive that contains it; "" for a file of its own
  neff::Located neff;
  bool listed = true;  // else `listing` is empty: only headers of a bundle's blob are read
  neff::Listing listing;
  std::optional<bool> hash_matches;  // if it was asked for
};

// PEFT's adapter_config.json, as far as it defines the tensors.
struct AdapterFacts {
  std::string type;  // "LORA"
  std::string base_model;
  std::optional<int64_t> rank;
  std::optional<double> alpha;
  std::vector<std::string> targets;
  uint64_t pairs = 0;  // of A and B with fitting shapes
};

// The state of an NxD optimizer, a file for each rank.
struct OptimizerFacts {
  int dp = 0, tp = 0, pp = 0, ep = 0;
  uint64_t files = 0;
  uint64_t missing = 0;  // of the grid
  bool zero1 = false;    // states cut over data parallel ranks
};

// The files that optimum-neuron's trainer writes next to the shards.
struct TrainerFacts {
  std::optional<int64_t> step;
  std::optional<double> epoch;
  std::vector<std::pair<std::string, std::string>> settings;  // of trn_config.json: key, JSON
  std::vector<std::string> metadata;                          // mp_metadata_pp_rank_*.json
};

struct InspectRequest {
  std::string path;
  InputHints hints;
  bool check_hashes = false;  // read NEFFs and compare their hashes
  std::function<Status()> poll = {};
  const Kind* kind = nullptr;  // null: recognised
};

struct Inspection : Survey {
  Mount mount;  // of its path
  LayoutCheck layout;
  // Elements of the model, without copies, if the layout fits; else of all stored tensors.
  uint64_t parameters = 0;
  bool parameters_are_logical = false;
  std::shared_ptr<const BoundArtifact> bound;  // if the layout fits; else null
  uint64_t tensors = 0;
  uint64_t files = 0;            // that hold tensors, or refer to them
  uint64_t bytes = 0;            // of those files
  std::vector<DtypeUse> dtypes;  // most bytes first
  // Facts that belong to no kind of artifact, or to files next to one.
  std::vector<NeffFacts> neffs;
  std::optional<neff::CacheListing> cache;
  std::optional<AdapterFacts> adapter;
  std::optional<OptimizerFacts> optimizer;
  std::optional<TrainerFacts> trainer;
  std::vector<Item> records;  // of a TorchScript archive, largest first

  const StoredTensor& tensor(TensorPlace place) const {
    return artifact.files[place.file].tensors[place.index];
  }
};

// Opens and summarises. kNotFound, kCorrupt and kUnsupported if the artifact cannot be read; kUsage
// if an option contradicts it. A layout that does not fit is a warning.
Result<Inspection> Inspect(const InspectRequest& request);

}  // namespace nxdkit::ops
