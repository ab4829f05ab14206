// What an artifact is and what is in it, learned from names, shapes and configuration: what
// ckpt-inspect shows. Nothing of what is read is executed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/kinds/kind.h"
#include "formats/nxd/mp_metadata.h"
#include "formats/nxd/detect.h"
#include "formats/nxd/shard_set.h"
#include "formats/rollout/bundle.h"
#include "formats/compile_cache/cache.h"
#include "formats/delta/delta.h"
#include "formats/neff/payload.h"
#include "lib/system/mount.h"

namespace nxdkit::ops {

enum class Form : uint8_t {
  kHfFolder,
  kSafetensorsFile,
  kTorchStateDict,  // one archive: name -> tensor
  kTorchTree,       // one archive of nested values, such as an optimizer's state
  kTorchScript,     // one archive of a program; only its records are looked at
  kNxdSet,
  kNxdRoot,   // none of its tags is finished: nothing is read
  kNxdShard,  // one main file of a set
  kRolloutBundle,
  kRolloutShard,  // one rank's file
  kNeff,
  kCompileCache,
  kLoraAdapter,   // a folder with adapter_config.json and adapter_model.safetensors
  kNxdOptimizer,  // optim/ of a tag
  kDelta,         // what changed in a model
  kDcpFolder,     // a torch distributed checkpoint
};
std::string_view FormName(Form form);  // "hf", "safetensors", ..., for --json

// Place of a tensor in Inspection::artifact.files.
struct TensorPlace {
  uint32_t file = 0;
  uint32_t index = 0;
};

// A tensor of which only the name is here (xser); its file could not be read.
struct TensorReference {
  std::string name;
  std::string file;  // "tensor_12.pt"
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
  std::string message;      // why not checked; what does not fit; "" when all is here and fits
  uint64_t parameters = 0;  // of the model, when it fits
  uint64_t missing_parameters = 0;  // of those, stored nowhere in this artifact
};

// A file or folder beside the weights, or a record inside an archive.
struct Item {
  std::string name;
  uint64_t bytes = 0;
};

// One of several in a Hugging Face folder.
struct WeightSet {
  std::string file;  // or its index; of shards without one, the first
  bool read = false;
};

// How the hardware of an NxD set is known.
enum class HardwareSource : uint8_t {
  kUnknown,     // copies of the key heads are here, and nothing says in which order
  kIrrelevant,  // kv multiplier 1: both orders are the same
  kOptions,
  kSidecar,
  kRecord,    // optimum-neuron's metadata in the set
  kReplicas,  // the order of the copies, read off the contents
};
std::string_view HardwareSourceName(HardwareSource source);

struct NxdFacts {
  nxd::SetLocation location;              // style, sizes, tag and its marker `done`
  bool xser = false;                      // each tensor in a file of its own
  bool checkpoint = false;                // the marker `checkpoint`
  std::vector<nxd::TagFolder> tags;       // when the path is a root
  std::vector<Item> beside;               // optim/, scheduler.pt, user_content.pt of the tag
  std::optional<nxd::Geometry> geometry;  // when the configuration is known
  nxd::ReplicaOrder replicas = nxd::ReplicaOrder::kNone;
  HardwareSource hardware = HardwareSource::kUnknown;
  std::string source_digest;  // that nxdkit.json records; "" for none
};

struct RolloutFacts {
  std::optional<rollout::NeuronConfig> config;
  int64_t first_rank = 0;
  int64_t ranks = 0;  // whose shards are here
  std::vector<Item> blobs;
  std::optional<rollout::WeightsVersion> weights;  // of a bundle that was refreshed
  std::optional<models::RolloutHeads> heads;       // when the configuration is known
};

// A compiled graph, in a file of its own or inside model.pt.
struct NeffFacts {
  std::string record;  // of the archive that it is in; "" for a file of its own
  neff::Located neff;
  bool listed = true;  // else `listing` is empty: of a bundle's blob, headers alone are read
  neff::Listing listing;
  std::optional<bool> hash_matches;  // when it was asked for
};

// adapter_config.json of PEFT, as far as it tells what the tensors are.
struct AdapterFacts {
  std::string type;  // "LORA"
  std::string base_model;
  std::optional<int64_t> rank;
  std::optional<double> alpha;
  std::vector<std::string> targets;
  uint64_t pairs = 0;  // of A and B whose shapes fit
};

// The state of an NxD optimizer, a file for each rank.
struct OptimizerFacts {
  int dp = 0, tp = 0, pp = 0, ep = 0;
  uint64_t files = 0;
  uint64_t missing = 0;  // of the grid
  bool zero1 = false;    // states cut over data parallel ranks
};

// What optimum-neuron's trainer leaves beside the shards.
struct TrainerFacts {
  std::optional<int64_t> step;
  std::optional<double> epoch;
  std::vector<std::pair<std::string, std::string>> settings;  // of trn_config.json: key, JSON
  std::vector<std::string> metadata;                          // mp_metadata_pp_rank_*.json
};

// A torch distributed checkpoint.
struct DcpFacts {
  uint64_t tensors = 0;  // keys, each of one or more chunks
  uint64_t chunks = 0;
  std::vector<std::string> objects;  // keys of what is no tensor
};

// A delta: how much of a model changed, and of which models it says so.
struct DeltaFacts {
  delta::Coding coding = delta::Coding::kRaw;
  uint64_t parameters = 0;  // tensors
  uint64_t elements = 0;
  uint64_t changed = 0;        // of them
  uint64_t dense_bytes = 0;    // of all elements
  uint64_t payload_bytes = 0;  // of the changes
  std::string base, result;    // digests, "sha256:..."
};

struct InspectRequest {
  std::string path;
  InputHints hints;
  bool check_hashes = false;  // read NEFFs and compare their hashes
  std::function<Status()> poll = {};
  const Kind* kind = nullptr;  // what it is; null: recognised
};

struct Inspection {
  Form form = Form::kHfFolder;
  std::string description;  // in plain words
  Mount mount;              // where it lies
  Artifact artifact;        // holds the tensors
  std::vector<TensorReference> references;
  LayoutCheck layout;
  // Elements of the model, copies not counted, when the layout fits; else of all stored tensors.
  uint64_t parameters = 0;
  bool parameters_are_logical = false;
  uint64_t tensors = 0;
  uint64_t files = 0;                  // that hold tensors, or say where they are
  uint64_t bytes = 0;                  // of those files
  std::vector<DtypeUse> dtypes;        // most bytes first
  std::vector<WeightSet> weight_sets;  // kHfFolder, where there are several
  std::optional<NxdFacts> nxd;
  std::optional<RolloutFacts> rollout;
  std::vector<NeffFacts> neffs;
  std::optional<neff::CacheListing> cache;
  std::optional<AdapterFacts> adapter;
  std::optional<OptimizerFacts> optimizer;
  std::optional<TrainerFacts> trainer;
  std::optional<DeltaFacts> delta;
  std::optional<DcpFacts> dcp;
  std::optional<nxd::ShardFile> shard;  // kNxdShard: its ranks
  std::optional<int64_t> rank;          // kRolloutShard
  std::vector<std::string> entries;     // values beside the tensors: "epoch"
  std::vector<Item> records;            // kTorchScript: of the archive, largest first
  std::vector<std::string> warnings;

  const StoredTensor& tensor(TensorPlace place) const {
    return artifact.files[place.file].tensors[place.index];
  }
};

// Opens and summarises. kNotFound, kCorrupt and kUnsupported when the artifact cannot be read;
// kUsage when an option contradicts it. A layout that does not fit is a warning.
Result<Inspection> Inspect(const InspectRequest& request);

}  // namespace nxdkit::ops
