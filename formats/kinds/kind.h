// A kind of artifact: the functions that make it known to every command. One row of the table
// (formats/kinds/table.h) and one folder for each. Every kind has `name`, `called`, `open`, `bind`,
// and `is_file` or `is_folder`; any other function that is null means that the kind cannot do it,
// unless its comment says otherwise.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/adapter/lora_numbering.h"
#include "formats/artifact/bound.h"
#include "formats/artifact/finding.h"
#include "formats/kinds/options.h"
#include "formats/kinds/output.h"
#include "formats/models/gqa.h"

namespace nxdkit::kinds {

struct KindFacts;  // formats/kinds/facts.h
struct Survey;     // formats/kinds/survey.h

// The form in which a kind stores the state of training; see formats/training/named_state.h.
enum class StateForm : uint8_t { kNone, kNumbered, kNamed };

struct Kind {
  std::string_view name;    // "hf": for --from and --to, and inspect's form
  std::string_view called;  // in a sentence: "an NxD set"
  // Decides when a path may be of two kinds: the lower number wins. 0 to 9 are taken.
  int precedence = 0;
  Result<bool> (*is_file)(const std::string& path) = nullptr;
  Result<bool> (*is_folder)(const std::string& path, const Looker& look) = nullptr;
  // The artifact's place in a folder of a training run.
  Result<std::string> (*place)(const std::string& path, const Looker& look) = nullptr;

  // Opens structure and configuration, not the layout: works for families without a table too.
  // `artifact` has its kind, path and look.
  Status (*open)(Artifact& artifact, const InputHints& hints) = nullptr;
  // Maps every stored tensor to parameters; `bound` has the opened artifact.
  Status (*bind)(BoundArtifact& bound, const InputHints& hints) = nullptr;
  std::span<const OptionRow> options = {};
  // kUsage for options of an output of the kind that exclude each other.
  Status (*check_options)(const Arguments& given) = nullptr;
  bool reads_base = false;  // its parameters are another artifact's, changed

  // --- the state of training
  StateForm state = StateForm::kNone;
  // Adds the state to an artifact that was bound without it; null: the kind keeps none, or it is
  // named, and `bind` adds it if hints.optimizer asks for it.
  Status (*bind_state)(BoundArtifact& bound, const InputHints& hints) = nullptr;

  // --- LoRA adapters; a kind with is_adapter has bind_adapter
  Result<bool> (*is_adapter)(const std::string& path, const Looker& look) = nullptr;
  // Whether an artifact opened as a model is an adapter, or its adapter is asked for; null:
  // is_adapter decides.
  bool (*holds_adapter)(const Artifact& artifact, const InputHints& hints) = nullptr;
  // The folders in which to look for the configuration of the adapter's base; null: its own.
  Result<std::vector<std::string>> (*adapter_folders)(const std::string& path,
                                                      const InputHints& hints,
                                                      const Looker& look) = nullptr;
  // Fills in `bound`, whose artifact has its kind, path and look.
  Status (*bind_adapter)(BoundArtifact& bound, const LoraBase& base, nxd::LoraSharing sharing,
                         const InputHints& hints) = nullptr;

  // --- properties of a bound artifact
  // Adds the hints that an adapter made for it needs, where the user has given none.
  void (*tell)(const BoundArtifact& bound, InputHints& hints) = nullptr;
  bool stores_once = false;  // no parameter is stored twice, except a tied pair
  std::optional<int> (*tensor_parallel)(const BoundArtifact& bound) = nullptr;
  // The heads on each rank; null if nothing is cut by heads.
  std::optional<models::Placement> (*heads)(const BoundArtifact& bound) = nullptr;
  // The findings about this kind's own data; and the checks that passed, a line each.
  std::vector<Finding> (*check)(const BoundArtifact& bound) = nullptr;
  void (*name_checks)(const BoundArtifact& bound, uint64_t ranks,
                      std::vector<std::string>& checks) = nullptr;
  // The known cause of a query head in another's place; "" if none is known.
  std::string (*misplaced_by)(const BoundArtifact& bound, const Finding& finding,
                              int64_t stored_head) = nullptr;
  // Torch archives inside files; null if a file is one.
  std::vector<ArchiveRange> (*archives)(const Artifact& artifact) = nullptr;

  // --- ckpt-inspect (formats/kinds/survey.h)
  // Describes the path; null: a whole artifact of this kind's name.
  Status (*describe)(Survey& survey, const std::string& path, const InputHints& hints) = nullptr;
  // Adds the facts that follow from a layout that fits.
  void (*describe_layout)(Survey& survey, const BoundArtifact& bound,
                          const InputHints& hints) = nullptr;
  // The rows that only this kind has; for other artifacts only their keys.
  void (*add_facts)(KindFacts& facts, const Survey& survey) = nullptr;

  // --- as an output; null: the kind is only read
  Result<std::unique_ptr<Output>> (*decide)(const BoundArtifact& source,
                                            const OutputOptions& options) = nullptr;
  std::string_view instead = {};  // advice if it is asked for as an output
  // Whether it has a place for tensors that are not parameters of the model
  // (BoundArtifact::carried).
  bool keeps_carried = false;
  bool keeps_adapter = false;  // it has a form for an adapter alone
  bool refreshes = false;      // its weights can be replaced while it is in use
};

}  // namespace nxdkit::kinds
