// An opened artifact that holds a model's weights: its files and its configuration. The state of a
// single kind of artifact is in formats/kinds/.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/arguments.h"
#include "formats/artifact/words.h"
#include "formats/models/model.h"
#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/plan/layout.h"
#include "lib/system/looker.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::artifact {

// A kind's own state of an artifact; only that kind's code uses it.
class KindState {
 public:
  virtual ~KindState() = default;
};

struct Artifact;

// The user's options for an input. The arguments are those of its kind: "tp", "tag".
struct InputHints : Arguments {
  std::string origin;  // their source, for messages: "the command line"
  std::string prefix;  // before the names of options: "--a-"; "" if the user has none
  std::optional<std::string> config;          // path of a config.json
  std::optional<std::string> config_if_none;  // the same, for an artifact that has none
  std::string family;                         // path of its family's text; "": look for it
  bool no_config = false;  // ignore the config.json found, which is another artifact's
  // If the configuration cannot be read, continue without it: a warning gives the reason.
  bool config_optional = false;
  bool partial = false;                   // show what is there, though files are missing
  std::string lora;                       // a LoRA adapter to merge into the model when it is read
  std::optional<std::string> lora_alpha;  // for an adapter whose files do not have it
  // Also bind the state of training, if the artifact has one.
  bool optimizer = false;
  // Returns the artifact instead of opening its path, which is then only a name for messages. For a
  // kind that reads a base (Kind::reads_base) it returns the base, which all hints are about.
  std::function<Result<Artifact>()> memory;
};

// A torch archive with checksums: a file, or a part of one.
struct ArchiveRange {
  std::string path;
  uint64_t offset = 0;
  std::optional<uint64_t> bytes;  // nullopt: the whole file
};

struct Artifact : Said {
  const kinds::Kind* kind = nullptr;
  std::string path;         // as given
  Looker look;              // the files as found when it was opened
  std::string folder;       // owns all files in it; "" for a single file
  std::string side_folder;  // of config.json and the tokenizer files; "" if there are none
  std::string config_path;  // "" if there is no config, or it is made and not read
  std::string config_text;
  std::optional<models::ModelConfig> config;
  std::optional<Error> config_fault;  // why there is none, though there is a file

  std::vector<TensorFile> files;  // a bound optimizer's after the model's
  std::vector<LayoutFile> ranks;  // parallel to files
  std::shared_ptr<const KindState> state;
  // Facts that were found to agree on the way, if a format stores one twice: for people.
  std::vector<std::string> proofs;

  uint64_t file_bytes() const;  // of all tensor files
  size_t tensor_count() const;
};

// The paths of its tensor files; tensors in memory have none.
std::vector<std::string> PathsOf(const Artifact& artifact);

// Reads the configuration: hints.config, else config.json of the first of `folders` that has one
// ("" is none), else `instead`, a file that replaces it ("": none). A missing configuration is not
// an error.
Status LoadConfig(Artifact& artifact, const InputHints& hints,
                  const std::vector<std::string>& folders, const std::string& instead = "");

}  // namespace nxdkit::artifact
