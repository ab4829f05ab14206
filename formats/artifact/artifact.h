// Anything that holds a model's weights, opened: what it is, its files, its configuration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/models/model.h"
#include "formats/nxd/mp_metadata.h"
#include "formats/nxd/shard_set.h"
#include "formats/nxd/sidecar.h"
#include "formats/rollout/bundle.h"
#include "lib/base/choice.h"
#include "lib/plan/layout.h"

namespace nxdkit::delta {
class Delta;  // formats/delta/delta.h
}
namespace nxdkit::nxd {
enum class GroupRule : uint8_t;  // formats/nxd/param_order.h
}
namespace nxdkit::dcp {
struct Folder;  // formats/dcp/folder.h
}

namespace nxdkit::ops {

enum class Kind : uint8_t { kHf, kNxd, kRollout, kTorch, kDelta, kDcp };
std::string_view KindName(Kind kind);  // "hf", "nxd", "rollout", "torch", "delta", "dcp"
std::optional<Kind> KindFromName(std::string_view name);

// What the user says of an input.
struct InputHints {
  nxd::Claims claims;  // also tp of a rollout bundle
  std::optional<std::string> tag;
  std::optional<std::string> config;          // path of a config.json
  std::optional<std::string> config_if_none;  // the same, of an artifact that has none
  bool no_config = false;  // a config.json that lies there is not this artifact's
  // Of a configuration that cannot be read, the tensors are looked at without it: a warning says
  // why.
  bool config_optional = false;
  std::optional<bool> fused_qkv;
  std::string base;     // of a delta: the path of the artifact that it changes
  std::string lora;     // of a model: a LoRA adapter that is merged into it as it is read
  std::string weights;  // of a rollout bundle: the folder of shards to open instead of its own
  // Of a Hugging Face folder with several sets of weights: the file or the index that counts; and
  // the option that names it, for a hint ("" where the user has none).
  std::string hf_weights;
  std::string hf_weights_option;
  // Taken for an NxD set whose hardware neither claims nor contents tell.
  std::optional<models::Hardware> hardware_if_unknown;
  // The optimizer state of an NxD tag or a distributed checkpoint is bound too, if it has one.
  bool optimizer = false;
  std::optional<nxd::GroupRule> param_order;  // of the optimizer's numbers; nullopt: found
};

struct Artifact {
  Kind kind = Kind::kHf;
  std::string path;         // as given
  std::string side_folder;  // where config.json and the tokenizer files lie; "" when there are none
  std::string config_path;  // "" when there is no config, or it is made and not read
  std::string config_text;
  std::optional<models::ModelConfig> config;
  std::optional<Error> config_fault;  // why there is none, though there is a file

  std::vector<TensorFile> files;          // a bound optimizer's after those of the model
  std::vector<LayoutFile> ranks;          // parallel to files
  std::optional<nxd::ShardSet> set;       // kNxd; its shards' tensors are in `files`
  std::optional<rollout::Bundle> bundle;  // kRollout; its shards are in `files`
  std::optional<nxd::Sidecar> sidecar;
  std::optional<nxd::MpRecord> mp_record;     // kNxd, of optimum-neuron's trainer
  std::shared_ptr<const delta::Delta> delta;  // kDelta; `files` are it and those of its base
  std::shared_ptr<const Artifact> base;       // kDelta
  std::shared_ptr<const dcp::Folder> dcp;     // kDcp
  std::vector<std::string> warnings;
  std::vector<Choice> choices;  // what was taken of several, on the way to it

  uint64_t file_bytes() const;  // of all files of tensors
  size_t tensor_count() const;
};

// Which kind the path is; kUnsupported when it is none of them. Here and below "ORG/NAME", where
// nothing of this name lies here, is the model in the hub's cache (formats/hf/hub_cache.h).
Result<Kind> Recognise(const std::string& path);

// Opens structure and configuration, not the layout: works for families without a table too.
Result<Artifact> OpenArtifact(const std::string& path, Kind kind, const InputHints& hints);

// The part of OpenArtifact that reads the configuration: hints.config, else config.json of the
// first of `folders` that has one ("" is none), else NxDI's merged file. No configuration is no
// error.
Status LoadConfig(Artifact& artifact, const InputHints& hints,
                  const std::vector<std::string>& folders);

}  // namespace nxdkit::ops
