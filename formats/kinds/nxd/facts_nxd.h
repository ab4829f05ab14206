// The facts of an NxD set, or of a root of which no tag is read, as ckpt-inspect shows them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/kinds/survey.h"
#include "formats/nxd/detect.h"
#include "formats/nxd/shard_set.h"

namespace nxdkit::kinds {

// The source of an NxD set's hardware.
enum class HardwareSource : uint8_t {
  kUnknown,     // there are copies of the key heads, and nothing tells their order
  kIrrelevant,  // kv multiplier 1: both orders are the same
  kOptions,
  kSidecar,
  kRecord,    // optimum-neuron's metadata in the set
  kReplicas,  // the order of the copies in the contents
};

struct NxdFacts : KindState {
  bool read = false;                      // else only a root, with `tags`
  nxd::SetLocation location;              // style, sizes, tag and its marker `done`
  bool xser = false;                      // each tensor in a file of its own
  bool checkpoint = false;                // the marker `checkpoint`
  std::vector<nxd::TagFolder> tags;       // if the path is a root
  std::vector<Item> beside;               // optim/, scheduler.pt, user_content.pt of the tag
  std::optional<nxd::Geometry> geometry;  // if the configuration is known
  nxd::ReplicaOrder replicas = nxd::ReplicaOrder::kNone;
  HardwareSource hardware = HardwareSource::kUnknown;
  std::string source_digest;  // recorded in nxdkit.json; "" for none
};

Status DescribeNxd(Survey& survey, const std::string& path, const InputHints& hints);
void DescribeNxdLayout(Survey& survey, const BoundArtifact& bound, const InputHints& hints);
void AddNxdFacts(KindFacts& facts, const Survey& survey);

}  // namespace nxdkit::kinds
