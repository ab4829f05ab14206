// The main job: any artifact to any other, streaming, published whole or not at all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/run.h"
#include "formats/ops/verify/compare.h"
#include "formats/output/output_plan.h"

namespace nxdkit::ops {

// One of `count` processes that make an output together; see formats/ops/convert/parts.h.
struct Part {
  int index = 0;  // from 0
  int count = 1;
};

struct ConvertRequest {
  Kind from = Kind::kHf;
  Kind to = Kind::kHf;
  std::string input;
  // Instead of opening `input`, which is then only a name for messages: a trainer's weights lie in
  // its memory.
  std::function<Result<BoundArtifact>()> source;
  std::string output;
  InputHints hints;       // of the input
  OutputOptions options;  // of the output
  RunOptions run;
  bool force = false;  // replace an existing output
  // Continue what an interrupted run of the same conversion left; where it was through, the output
  // that is there is compared with what would be written, and nothing is.
  bool resume = false;
  bool verify = false;  // re-read and compare before publishing
  bool digest = false;  // of an NxD set: nxdkit.json names the digest of the source
  bool sync = true;     // the output is on the disk before it is published
  // The output is a rollout bundle, and only its weights are replaced, by one rename; see
  // formats/rollout/weight_slots.h.
  bool into = false;
  std::optional<std::string> label;            // with `into`: what the new version is called
  delta::Coding coding = delta::Coding::kRaw;  // of a delta, which hints.base is the base of
  std::optional<Part> part;                    // make only this part's files
};

// What a refresh did.
struct Refreshed {
  std::string slot;          // where the new weights lie
  bool overwritten = false;  // an older version's files, instead of new ones
  rollout::WeightsVersion version;
};

// What a delta holds.
struct DeltaReport {
  uint64_t changed = 0;      // elements
  uint64_t dense_bytes = 0;  // of all parameters in the base's dtype
  std::string base;          // digests, "sha256:..."
  std::string result;
};

// What one part did.
struct PartReport {
  int index = 0;
  int count = 1;
  uint64_t files = 0;        // of this part
  uint64_t bytes = 0;        // of these
  bool published = false;    // the output is there: this was the last part, or is repeated
  std::vector<int> missing;  // parts that the output waits for, in order
};

// Of the optimizer state that went with an NxD tag.
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

struct ConvertReport {
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
  bool already_published = false;  // the output was there, the same; nothing was written
  nxd::Geometry nxd;               // of the output, when that is an NxD set
  bool xser = false;
  std::optional<OptimizerReport> optimizer;
  std::optional<Refreshed> refreshed;  // with `into`
  std::optional<PartReport> part;      // with `part`
  std::optional<DeltaReport> delta;    // to and from a delta
  std::optional<LoraReport> lora;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  // about the source
};

// Everything but writing: refuses what Convert would refuse.
Result<ConvertReport> DryRun(const ConvertRequest& request);

// Reads, checks replicas and padding of the source, writes aside, optionally verifies, publishes.
Result<ConvertReport> Convert(const ConvertRequest& request);

// Whence every byte of the output tensors with this name comes (all ranks), as text lines.
// kNotFound when no output tensor has the name (with the closest one as a hint).
Result<std::string> Explain(const ConvertRequest& request, const std::string& tensor);

}  // namespace nxdkit::ops
