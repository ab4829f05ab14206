// Anything that holds a model's weights, opened: its files and its configuration. What only one
// kind of artifact knows is that kind's own (formats/kinds/).
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

// What a kind keeps of an artifact beside what all have; asked for by that kind's code.
class KindState {
 public:
  virtual ~KindState() = default;
};

struct Artifact;

// What the user says of an input. The arguments are those of its kind: "tp", "tag".
struct InputHints : Arguments {
  std::string origin;  // who says it, for messages: "the command line"
  std::string prefix;  // how its options are spelled: "--a-"; "" where the user has none
  std::optional<std::string> config;          // path of a config.json
  std::optional<std::string> config_if_none;  // the same, of an artifact that has none
  std::string family;      // path of the text of its family; "": it is looked for
  bool no_config = false;  // a config.json that lies there is not this artifact's
  // Where the configuration cannot be read, the tensors are looked at without it: a warning says
  // why.
  bool config_optional = false;
  bool partial = false;  // what is there is shown, though files are missing
  std::string lora;      // a LoRA adapter that is merged into the model as it is read
  std::optional<std::string> lora_alpha;  // of an adapter whose files do not say it
  // The state of training is bound too, where the artifact has one.
  bool optimizer = false;
  // Gives the artifact instead of opening its path, which is then a name for messages alone. Of
  // what reads a base (Kind::reads_base) it gives the base, as all that is said there is of that.
  std::function<Result<Artifact>()> memory;
};

// A torch archive with checksums: a file, or a part of one.
struct ArchiveRange {
  std::string path;
  uint64_t offset = 0;
  std::optional<uint64_t> bytes;  // nullopt: all of the file
};

struct Artifact : Said {
  const kinds::Kind* kind = nullptr;
  std::string path;         // as given
  Looker look;              // what lay there when it was opened
  std::string folder;       // whose files belong to it; "" for a single file
  std::string side_folder;  // where config.json and the tokenizer files lie; "" when there are none
  std::string config_path;  // "" when there is no config, or it is made and not read
  std::string config_text;
  std::optional<models::ModelConfig> config;
  std::optional<Error> config_fault;  // why there is none, though there is a file

  std::vector<TensorFile> files;  // a bound optimizer's after those of the model
  std::vector<LayoutFile> ranks;  // parallel to files
  std::shared_ptr<const KindState> state;
  // What was found to fit on the way, where a format gives more than one witness: for people.
  std::vector<std::string> proofs;

  uint64_t file_bytes() const;  // of all files of tensors
  size_t tensor_count() const;
};

// The paths of its files of tensors; none of what lies in memory.
std::vector<std::string> PathsOf(const Artifact& artifact);

// Reads the configuration: hints.config, else config.json of the first of `folders` that has one
// ("" is none), else `instead`, a file that stands for one ("": none). No configuration is no
// error.
Status LoadConfig(Artifact& artifact, const InputHints& hints,
                  const std::vector<std::string>& folders, const std::string& instead = "");

}  // namespace nxdkit::artifact
