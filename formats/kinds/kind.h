// A kind of artifact: what has to be provided so that every command knows it. One row of the table
// (formats/kinds/table.h) and one folder for each. Every kind has `name`, `called`, `open`, `bind`,
// and `is_file` or `is_folder`; another function that is null is what the kind cannot, where
// nothing else is said.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/adapter/lora_parts.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/kinds/options.h"
#include "formats/kinds/output.h"
#include "formats/models/gqa.h"

namespace nxdkit::kinds {

struct KindFacts;  // formats/kinds/facts.h
struct Survey;     // formats/kinds/survey.h

// How a kind keeps the state of training; see formats/training/named_state.h.
enum class StateForm : uint8_t { kNone, kNumbered, kNamed };

struct Kind {
  std::string_view name;    // "hf": as --from and --to take it, and as inspect calls the form
  std::string_view called;  // in a sentence: "an NxD set"
  // Which kind a path is that may be two: the one with the lower number. 0 to 9 are taken.
  int precedence = 0;
  Result<bool> (*is_file)(const std::string& path) = nullptr;
  Result<bool> (*is_folder)(const std::string& path, const Looker& look) = nullptr;
  // Where it lies in a folder that is known to be one of a training run.
  Result<std::string> (*place)(const std::string& path, const Looker& look) = nullptr;

  // Structure and configuration, not the layout: works for families without a table too.
  // `artifact` has its kind, path and look.
  Status (*open)(Artifact& artifact, const InputHints& hints) = nullptr;
  // Maps every stored tensor to parameters; `bound` has the opened artifact.
  Status (*bind)(BoundArtifact& bound, const InputHints& hints) = nullptr;
  std::span<const OptionRow> options = {};
  // kUsage for options that do not go together, as what is said of an output of the kind.
  Status (*check_options)(const Arguments& given) = nullptr;
  bool reads_base = false;  // its parameters are those of another artifact, changed

  // --- the state of training
  StateForm state = StateForm::kNone;
  // Adds the state to an artifact that was bound without it; null: none is kept, or it is named,
  // and `bind` adds it where hints.optimizer asks for it.
  Status (*bind_state)(BoundArtifact& bound, const InputHints& hints) = nullptr;

  // --- LoRA adapters; a kind with is_adapter has bind_adapter
  Result<bool> (*is_adapter)(const std::string& path, const Looker& look) = nullptr;
  // Whether what was opened as a model's is an adapter, or its adapter is asked for; null:
  // is_adapter tells.
  bool (*holds_adapter)(const Artifact& artifact, const InputHints& hints) = nullptr;
  // The folders in which the configuration of the adapter's base is looked for; null: its own.
  Result<std::vector<std::string>> (*adapter_folders)(const std::string& path,
                                                      const InputHints& hints,
                                                      const Looker& look) = nullptr;
  // Fills in `bound`, whose artifact has its kind, path and look.
  Status (*bind_adapter)(BoundArtifact& bound, const LoraBase& base, nxd::LoraSharing sharing,
                         const InputHints& hints) = nullptr;

  // --- what can be said of a bound artifact
  // What it tells of an adapter that is made for it, where nothing has been said.
  void (*tell)(const BoundArtifact& bound, InputHints& hints) = nullptr;
  bool stores_once = false;  // no parameter is stored twice, but for a tied pair
  std::optional<int> (*tensor_parallel)(const BoundArtifact& bound) = nullptr;
  // Which heads lie on which rank; null where nothing is cut by heads.
  std::optional<models::Placement> (*heads)(const BoundArtifact& bound) = nullptr;
  // What is wrong with what only this kind has; and what was found good, a line each.
  std::vector<Finding> (*check)(const BoundArtifact& bound) = nullptr;
  void (*name_checks)(const BoundArtifact& bound, uint64_t ranks,
                      std::vector<std::string>& checks) = nullptr;
  // The known cause of a query head that lies where another belongs; "" for none.
  std::string (*misplaced_by)(const BoundArtifact& bound, const Finding& finding,
                              int64_t stored_head) = nullptr;
  // Torch archives inside of files; null where a file is one.
  std::vector<ArchiveRange> (*archives)(const Artifact& artifact) = nullptr;

  // --- what ckpt-inspect shows (formats/kinds/survey.h)
  // What the path is; null: a whole artifact of this kind's name.
  Status (*describe)(Survey& survey, const std::string& path, const InputHints& hints) = nullptr;
  // What follows from a layout that fits.
  void (*describe_layout)(Survey& survey, const BoundArtifact& bound,
                          const InputHints& hints) = nullptr;
  // The rows of what only this kind has; of other artifacts their keys alone.
  void (*add_facts)(KindFacts& facts, const Survey& survey) = nullptr;

  // --- as an output; null: it is only read
  Result<std::unique_ptr<Output>> (*decide)(const BoundArtifact& source,
                                            const OutputOptions& options) = nullptr;
  std::string_view instead = {};  // null: what to do where it is asked for as an output
  // It has a place for tensors that no parameter of the model is (BoundArtifact::carried).
  bool keeps_carried = false;
  bool keeps_adapter = false;  // it has a form for an adapter alone
  bool refreshes = false;      // its weights can be replaced while it is in use
};

}  // namespace nxdkit::kinds
