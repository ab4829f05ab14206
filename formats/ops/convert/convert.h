// The main job: any artifact to any other, streaming, published whole or not at all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/artifact/run.h"
#include "formats/delta/delta.h"
#include "formats/hardware/fit.h"
#include "formats/kinds/table.h"
#include "formats/rollout/weights_version.h"

namespace nxdkit::ops {

// How the output comes to be there. A whole one, built aside and renamed:
struct NewOutput {};
// One of `count` processes that make it together; see formats/ops/convert/parts.h.
struct Part {
  int index = 0;  // from 0
  int count = 1;
  std::string note{};  // for the report: how these were found, where that was doubtful
  // A launcher has numbered the processes: no two of a job have one index, on whatever machine one
  // is started again. False: somebody wrote the index down, by mistake perhaps for several.
  bool numbered = false;
  // Whoever is last puts all parts together. False: another process does, which is told by other
  // means than the file system that all are done, and then makes its own part again.
  bool puts_together = true;
};
// A rollout bundle that may be in use, of which only the weights are replaced, by one rename; see
// formats/rollout/weight_slots.h.
struct Slot {
  std::optional<std::string> label;  // what the new version is called; nullopt: as its source
};

struct ConvertRequest {
  const Kind* from = &kHf;
  const Kind* to = &kHf;
  std::string input;
  Looker look;  // at the input and what it is made of, from the first question on
  // Instead of opening `input`, which is then only a name for messages: a trainer's weights lie in
  // its memory.
  std::function<Result<BoundArtifact>()> source;
  std::string output;
  InputHints hints;  // of the input
  // The base of a delta that is made, instead of opening the one that the hints name.
  std::function<Result<Artifact>()> base_memory;
  OutputOptions options;  // of the output
  RunOptions run;
  bool force = false;  // replace an existing output
  // Continue what an interrupted run of the same conversion left; where it was through, the output
  // that is there is compared with what would be written, and nothing is.
  bool resume = false;
  bool verify = false;  // re-read and compare before publishing
  bool digest = false;  // of an NxD set: nxdkit.json names the digest of the source
  bool sync = true;     // the output is on the disk before it is published
  // The optimizer's state was asked for by name: without it the conversion is refused.
  bool state_required = false;
  std::vector<std::string> notes;  // what the report says first
  std::variant<NewOutput, Part, Slot> place;
  // The conversion is refused when what it makes does not fit the memory of this instance.
  std::optional<hardware::Instance> instance;
  // This machine, where no instance was named: what does not fit it is a warning.
  std::optional<hardware::Instance> here;
  // How an NxD set is to be trained there; what follows from the layout is filled in.
  hardware::TrainingUse training = {.sequence = 4096};
  delta::Coding coding = delta::Coding::kRaw;         // of a delta; hints name its base
  std::function<void(const std::string&)> on_detail;  // what was chosen, and why: a line each
};

// What a refresh did.
struct Refreshed {
  std::string slot;          // where the new weights lie
  bool overwritten = false;  // an older version's files, instead of new ones
  rollout::WeightsVersion version;
};

struct DeltaReport {
  uint64_t changed = 0;      // elements
  uint64_t dense_bytes = 0;  // of all parameters in the base's dtype
  std::string base;          // digests, "sha256:..."
  std::string result;
};

struct PartReport {
  int index = 0;
  int count = 1;
  uint64_t files = 0;        // of this part
  uint64_t bytes = 0;        // of these
  bool published = false;    // the output is there: this was the last part, or is repeated
  std::vector<int> missing;  // parts that the output waits for, in order
};

// What became of the optimizer state that went with an NxD tag.
struct OptimizerReport {
  nxd::OptimizerStyle from = nxd::OptimizerStyle::kZero1;
  nxd::OptimizerStyle to = nxd::OptimizerStyle::kZero1;
  int from_dp = 1;
  int to_dp = 1;
  nxd::GroupRule order = nxd::GroupRule::kNorms;
  std::vector<std::string> entries;  // "exp_avg", ...
};

// Of a LoRA adapter that was merged, or converted.
struct LoraReport {
  std::string path;
  uint64_t pairs = 0;   // weights with an A and a B
  uint64_t wholes = 0;  // parameters that the adapter holds whole
  int64_t rank = 0;     // as its configuration says
  double scale = 0;
};

// What was seen of the values on their way, by parameter.
struct ValueReport {
  uint64_t nan = 0;  // elements
  uint64_t inf = 0;
  std::vector<std::string> not_finite;  // parameters that have some
  std::vector<std::string> zero;        // matrices and norms of nothing but zeros
};

struct ConvertReport : Said {
  std::string model_type;
  uint64_t parameters = 0;    // elements of the model
  uint64_t source_bytes = 0;  // of the source's files of tensors
  uint64_t output_bytes = 0;
  uint64_t output_files = 0;
  uint64_t output_tensors = 0;
  uint64_t tasks = 0;
  uint64_t resumed_tasks = 0;
  uint64_t buffer_bytes = 0;
  uint64_t predicted_memory = 0;
  std::string source_digest;  // "sha256:..." when it was asked for
  bool blob_missing = false;  // a rollout bundle without model.pt
  bool verified = false;
  bool already_published = false;        // the output was there, the same; nothing was written
  std::shared_ptr<const Output> target;  // what was decided of the output
  std::optional<OptimizerReport> optimizer;
  std::optional<Refreshed> refreshed;  // of a Slot
  std::optional<PartReport> part;      // of a Part
  std::optional<DeltaReport> delta;    // to and from a delta
  std::optional<LoraReport> lora;
  ValueReport values;
  std::optional<hardware::Fit> fit;  // of an instance that was named
  std::vector<std::string> notes;
};

// Everything but writing: refuses what Convert would refuse.
Result<ConvertReport> DryRun(const ConvertRequest& request);

// Reads, checks replicas and padding of the source, writes aside, optionally verifies, publishes.
Result<ConvertReport> Convert(const ConvertRequest& request);

}  // namespace nxdkit::ops
