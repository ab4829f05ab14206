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

// Ways to make the output. A whole one, built aside and renamed:
struct NewOutput {};
// One of `count` processes that make it together; see formats/ops/convert/part_destination.h.
struct Part {
  int index = 0;  // from 0
  int count = 1;
  std::string note{};  // for the report: how these were found, if in doubt
  // A launcher numbered the processes: no two of a job have the same index, whatever machine one is
  // restarted on. False: somebody wrote the index down, perhaps the same for several by mistake.
  bool numbered = false;
  // The last process puts all parts together. False: another process does so, which learns by means
  // other than the file system that all are done, and then makes its own part again.
  bool puts_together = true;
};
// A rollout bundle that may be in use, of which only the weights are replaced, by one rename; see
// formats/rollout/weight_slots.h.
struct Slot {
  std::optional<std::string> label;  // name of the new version; nullopt: as its source
};

struct ConvertRequest {
  const Kind* from = &kHf;
  const Kind* to = &kHf;
  std::string input;
  Looker look;  // at the input and its files, from the first question on
  // Used instead of opening `input`, which is then only a name for messages: a trainer's weights
  // are in its memory.
  std::function<Result<BoundArtifact>()> source;
  std::string output;
  InputHints hints;  // of the input
  // The base of a delta to be written, instead of opening the one that the hints name.
  std::function<Result<Artifact>()> base_memory;
  OutputOptions options;  // of the output
  RunOptions run;
  bool force = false;  // replace an existing output
  // Continue an interrupted run of the same conversion; if it had finished, the existing output is
  // compared with the new one, and nothing is written.
  bool resume = false;
  bool verify = false;  // re-read and compare before publishing
  bool digest = false;  // nxdkit.json of an NxD set names the source's digest
  bool sync = true;     // the output is on the disk before it is published
  // The optimizer's state was asked for by name: the conversion is refused without it.
  bool state_required = false;
  std::vector<std::string> notes;  // the first notes of the report
  std::variant<NewOutput, Part, Slot> place;
  // The conversion is refused if its output does not fit the memory of this instance.
  std::optional<hardware::Instance> instance;
  // This machine, if no instance was given: an output that does not fit it is a warning.
  std::optional<hardware::Instance> here;
  // How an NxD set is to be trained there; values that follow from the layout are filled in.
  hardware::TrainingUse training = {.sequence = 4096};
  delta::Coding coding = delta::Coding::kRaw;         // for a delta; hints name its base
  std::function<void(const std::string&)> on_detail;  // gets each choice and its reason, a line
};

// The result of a refresh.
struct Refreshed {
  std::string slot;          // holds the new weights
  bool overwritten = false;  // reused an older version's files
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
  bool published = false;    // the output is published: by this last part, or already before
  std::vector<int> missing;  // parts that the output waits for, in order
};

// The optimizer state that came with an NxD tag.
struct OptimizerReport {
  nxd::OptimizerStyle from = nxd::OptimizerStyle::kZero1;
  nxd::OptimizerStyle to = nxd::OptimizerStyle::kZero1;
  int from_dp = 1;
  int to_dp = 1;
  nxd::GroupRule order = nxd::GroupRule::kNorms;
  std::vector<std::string> entries;  // "exp_avg", ...
};

// A LoRA adapter that was merged, or converted.
struct LoraReport {
  std::string path;
  uint64_t pairs = 0;   // weights with an A and a B
  uint64_t wholes = 0;  // parameters that the adapter stores whole
  int64_t rank = 0;     // from its configuration
  double scale = 0;
};

// Statistics of the values as they were converted, by parameter.
struct ValueReport {
  uint64_t nan = 0;  // elements
  uint64_t inf = 0;
  std::vector<std::string> not_finite;  // parameters with such elements
  std::vector<std::string> zero;        // matrices and norms that are all zeros
};

struct ConvertReport : Said {
  std::string model_type;
  uint64_t parameters = 0;    // elements of the model
  uint64_t source_bytes = 0;  // of the source's tensor files
  uint64_t output_bytes = 0;
  uint64_t output_files = 0;
  uint64_t output_tensors = 0;
  uint64_t tasks = 0;
  uint64_t resumed_tasks = 0;
  uint64_t buffer_bytes = 0;
  uint64_t predicted_memory = 0;
  std::string source_digest;  // "sha256:..." if it was asked for
  bool blob_missing = false;  // a rollout bundle without model.pt
  bool verified = false;
  bool already_published = false;        // an equal output existed; nothing was written
  std::shared_ptr<const Output> target;  // the decided output
  std::optional<OptimizerReport> optimizer;
  std::optional<Refreshed> refreshed;  // of a Slot
  std::optional<PartReport> part;      // of a Part
  std::optional<DeltaReport> delta;    // to and from a delta
  std::optional<LoraReport> lora;
  ValueReport values;
  std::optional<hardware::Fit> fit;  // on an instance that was given
  std::vector<std::string> notes;
};

// Everything but writing: refuses all that Convert would refuse.
Result<ConvertReport> DryRun(const ConvertRequest& request);

// Reads, checks replicas and padding of the source, writes aside, optionally verifies, publishes.
Result<ConvertReport> Convert(const ConvertRequest& request);

}  // namespace nxdkit::ops
