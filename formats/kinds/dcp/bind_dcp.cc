#include "formats/kinds/dcp/read_dcp.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>

#include "formats/dcp/folder.h"
#include "formats/dcp/layout.h"
#include "formats/dcp/titan.h"
#include "formats/kinds/bind.h"
#include "formats/kinds/dcp/lora_dcp.h"
#include "formats/kinds/merge_lora.h"
#include "formats/training/numbered_form.h"
#include "formats/training/state_keys.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

// Prefixes that programs put before the names of a model: TorchTitan before summer 2025 and others
// keep it under "model".
constexpr std::string_view kPrefixes[] = {"", kModelPrefix};

// Entries of a training run other than model and optimizer, which are not parameters: by a part of
// the key, the first one or the one after the program's own name.
constexpr std::string_view kRunParts[] = {
    "lr_scheduler", "lr_schedulers", "scheduler",   "schedulers",  "dataloader",
    "data_loader",  "train_state",   "grad_scaler", "rng",         "rng_states",
    "rng_state",    "random_state",  "rng_tracker", "torch_state", "sampler"};
// Programs' names for an optimizer.
constexpr std::string_view kOptimizerParts[] = {
    "opt",        "optim",           "optims",           "optimizer",
    "optimizers", "optimizer_state", "optimizer_states", "optimizer_state_dict"};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view part) {
  return std::ranges::find(names, part) != std::end(names);
}

bool IsRunState(std::string_view key) {
  for (int parts = 0; parts < 2; ++parts) {
    const size_t dot = key.find('.');
    const std::string_view part = key.substr(0, dot);
    if (IsOneOf(kRunParts, part) || part.starts_with("rng_state")) return true;
    if (dot == std::string_view::npos) return false;
    if (IsOneOf(kOptimizerParts, part)) return true;
    key.remove_prefix(dot + 1);
  }
  return false;
}

std::string_view WithoutPrefix(std::string_view key, std::string_view prefix) {
  return key.starts_with(prefix) ? key.substr(prefix.size()) : "";
}

// The prefix under which the folder has most of the model's tensors.
std::string FindPrefix(const dcp::Folder& folder, const DcpTensors& known) {
  std::string_view best;
  size_t most = 0;
  for (const std::string_view prefix : kPrefixes) {
    const auto count =
        static_cast<size_t>(std::ranges::count_if(folder.tensors, [&](const auto& entry) {
          return known.contains(std::string(WithoutPrefix(entry.key, prefix)));
        }));
    if (count > most) best = prefix;
    most = std::max(most, count);
  }
  return std::string(best);
}

// Lays out every chunk of the entry as a part of `tensor`.
Status AddChunks(BoundArtifact& out, const dcp::StoredEntry& entry,
                 const dcp::GlobalTensor& tensor) {
  if (entry.shape != tensor.shape)
    return Corrupt("shape {} found, {} expected", ShapeText(entry.shape), ShapeText(tensor.shape))
        .in(out.artifact.path)
        .on(entry.key);
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    TensorLayout layout = dcp::CutChunk(tensor, chunk.box);
    layout.name = entry.key;
    layout.file = chunk.file;
    StoredTensor stored = dcp::SeenAs(chunk.stored, layout.shape);
    out.bound.Add(std::move(layout), std::move(stored));
  }
  return OkStatus();
}

// The keys that a run saves besides its weights and their optimizer, each with the prefix before
// the names of a second set of weights, such as their averages: "ema."; "" for all others.
using RunKeys = std::map<std::string, std::string, std::less<>>;

// Whether the key is "NAME.exp_avg" of a weight, with any prefix.
bool IsKeptOf(const DcpTensors& known, std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos || !IsKeptName(key.substr(dot + 1))) return false;
  const auto knows = [&](std::string_view name) { return known.contains(std::string(name)); };
  return knows(key.substr(0, dot)) || !WrapperOf(key.substr(0, dot), knows).empty();
}

// Only wrappers around most of the model count: a single tensor would belong to another model.
RunKeys FindRunKeys(const dcp::Folder& folder, const DcpTensors& known, const std::string& prefix) {
  RunKeys found;
  std::map<std::string, size_t> counts;
  size_t weights = 0;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    if (entry.key.starts_with(kOptimizerPrefix)) continue;
    if (known.contains(std::string(WithoutPrefix(entry.key, prefix)))) {
      ++weights;
      continue;
    }
    if (dcp::IsTitanBuffer(entry.key)) {
      found.emplace(entry.key, "");
      continue;
    }
    const bool of_model = !prefix.empty() && entry.key.starts_with(prefix);
    if (!of_model && (IsRunState(entry.key) || IsKeptOf(known, entry.key))) {
      found.emplace(entry.key, "");
      continue;
    }
    const std::string wrapper = WrapperOf(entry.key, [&](std::string_view name) {
      const auto tensor = known.find(std::string(name));
      return tensor != known.end() && tensor->second.shape == entry.shape;
    });
    if (wrapper.empty()) continue;
    ++counts[wrapper];
    found.emplace(entry.key, wrapper);
  }
  std::erase_if(found, [&](const auto& item) {
    return !item.second.empty() && 2 * counts.at(item.second) < weights;
  });
  return found;
}

// The keys of a run for a model without a table: recognised by the first part alone, because its
// tensors may have any name ("encoder.sampler.weight").
RunKeys RunKeysByName(const dcp::Folder& folder) {
  RunKeys found;
  for (const dcp::StoredEntry& entry : folder.tensors)
    if (!entry.key.starts_with(kOptimizerPrefix) &&
        IsOneOf(kRunParts, std::string_view(entry.key).substr(0, entry.key.find('.'))))
      found.emplace(entry.key, "");
  return found;
}

// The name of the weights' state dict in the checkpoint, if it has one: "model." for keys whose
// paths are ("model", NAME).
std::string StateDictName(const dcp::Folder& folder) {
  std::string name;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    if (entry.key.starts_with(kOptimizerPrefix)) continue;
    const auto path = folder.metadata.paths.find(entry.key);
    const torch::PickleList* parts =
        path == folder.metadata.paths.end() ? nullptr : path->second.list();
    if (!parts || parts->size() != 2 || !(*parts)[0].string() || !(*parts)[1].string()) return "";
    const std::string first = *(*parts)[0].string() + ".";
    if (entry.key != first + *(*parts)[1].string() || (!name.empty() && name != first)) return "";
    name = first;
  }
  return name;
}

// Removes it, so that a model without a configuration has the names of its tensors.
void TakeStateDictName(Artifact& artifact) {
  const std::string name = StateDictName(*DcpFolderOf(artifact));
  if (name.empty()) return;
  auto folder = std::make_shared<dcp::Folder>(*DcpFolderOf(artifact));
  for (dcp::StoredEntry& entry : folder->tensors) {
    if (!entry.key.starts_with(name)) continue;
    std::string plain = entry.key.substr(name.size());
    folder->stored_keys.emplace(plain, entry.key);
    entry.key = std::move(plain);
  }
  ReplaceFolder(artifact, std::move(folder));
  artifact.warnings.push_back(
      fmt::format("the names of the tensors are taken without what is around them: \"{}\"", name));
}

// Whether all entries of the optimizer belong to known tensors, under the same names.
bool KnowsOptimizer(const dcp::Folder& folder, const DcpTensors& known) {
  const auto is_known = [&](const std::string& key, std::string_view prefix) {
    if (!key.starts_with(prefix)) return true;
    return known.contains(SplitStateKey(std::string_view(key).substr(prefix.size())).first);
  };
  return std::ranges::all_of(folder.tensors,
                             [&](const dcp::StoredEntry& entry) {
                               return is_known(entry.key, kOptimizerState) &&
                                      is_known(entry.key, kOptimizerGroups);
                             }) &&
         std::ranges::all_of(folder.metadata.objects, [&](const dcp::ObjectEntry& object) {
           return is_known(object.key, kOptimizerState) && is_known(object.key, kOptimizerGroups);
         });
}

// A model without a table: each tensor is its own parameter. An optimizer that uses other names, or
// numbers, is carried as it is.
Status BindPlainDcp(BoundArtifact& out, const InputHints& hints, RunKeys& run) {
  TakeStateDictName(out.artifact);
  const dcp::Folder& folder = *DcpFolderOf(out.artifact);
  run = RunKeysByName(folder);
  DcpTensors known;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    if (entry.key.starts_with(kOptimizerPrefix) || run.contains(entry.key)) continue;
    const auto number = static_cast<uint32_t>(out.params.size());
    out.params.push_back({entry.key, entry.shape, 0, 0});
    const dcp::GlobalTensor tensor{WholeTensor(entry.key, 0, number, entry.shape), entry.shape, -1};
    NXDKIT_TRY(AddChunks(out, entry, tensor));
    known.emplace(entry.key, tensor);
  }
  if (!hints.optimizer || !KnowsOptimizer(folder, known)) return OkStatus();
  return BindDcpOptimizer(out, known);
}

// Whether it is a tensor that the family's text carries, or a buffer that it does not know.
bool IsKeptBeside(const BoundArtifact& out, const dcp::StoredEntry& entry,
                  const std::string& name) {
  if (models::IsIgnorable(*out.model->config.family, name)) return false;
  const dcp::Folder& folder = *DcpFolderOf(out.artifact);
  return models::IsCarried(*out.model, name) ||
         folder.whole_keys.contains(dcp::StoredKey(folder, entry.key));
}

Status BindModel(BoundArtifact& out, const DcpTensors& known, const std::string& prefix,
                 const RunKeys& run) {
  for (const dcp::StoredEntry& entry : DcpFolderOf(out.artifact)->tensors) {
    if (entry.key.starts_with(kOptimizerPrefix) || run.contains(entry.key)) continue;
    const std::string name(WithoutPrefix(entry.key, prefix));
    const auto tensor = known.find(name);
    if (tensor != known.end()) {
      NXDKIT_TRY(AddChunks(out, entry, tensor->second));
      continue;
    }
    if (IsKeptBeside(out, entry, name)) {
      const uint32_t number = AddCarried(out, name, entry.shape);
      NXDKIT_TRY(
          AddChunks(out, entry, {WholeTensor(name, 0, number, entry.shape), entry.shape, -1}));
      continue;
    }
    if (!models::IsIgnorable(*out.model->config.family, name))
      return Unsupported("the {} family has no such tensor in this layout; it would be lost",
                         out.model->config.family->model_type)
          .in(out.artifact.path)
          .on(entry.key);
    out.left_out.push_back(entry.key);
  }
  return OkStatus();
}

// A tensor's name and shape as one text.
std::string Described(std::string_view name, const Shape& shape) {
  return std::string(name) + "\n" + ShapeText(shape);
}

// All tensors that a name in the folder may stand for: with a prefix or without, or the optimizer's
// state of it.
std::unordered_set<std::string> DescribeStored(const dcp::Folder& folder) {
  std::unordered_set<std::string> out;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    std::string_view name = entry.key;
    if (name.starts_with(kOptimizerState))
      name = name.substr(kOptimizerState.size(), name.rfind('.') - kOptimizerState.size());
    for (const std::string_view prefix : kPrefixes)
      if (name.starts_with(prefix)) out.insert(Described(name.substr(prefix.size()), entry.shape));
  }
  return out;
}

DcpTensors KnownDcpTensors(const models::Model& model, const dcp::Folder& folder) {
  const std::unordered_set<std::string> described = DescribeStored(folder);
  const dcp::HasTensor stored = [&](const std::string& name, const Shape& shape) {
    return described.contains(Described(name, shape));
  };
  DcpTensors known;
  for (dcp::GlobalTensor& tensor : dcp::TensorsOfAnyStyle(model, stored)) {
    std::string name = tensor.layout.name;
    known.emplace(std::move(name), std::move(tensor));
  }
  return known;
}

// Whether a tensor that is not in any parameter is copied along. If the optimizer's entries cannot
// be assigned to weights, they count as the run's too, and so do options that are tensors.
bool IsCarried(const BoundArtifact& out, const dcp::StoredEntry& entry, const RunKeys& run) {
  if (entry.chunks.empty()) return false;
  if (run.contains(entry.key) || entry.key.starts_with(kOptimizerGroups)) return true;
  return !out.model && !out.optimizer && entry.key.starts_with(kOptimizerPrefix);
}

Status AddRunTensor(BoundArtifact& out, const dcp::StoredEntry& entry, const RunKeys& run) {
  const auto number = static_cast<uint32_t>(out.params.size());
  out.params.push_back({entry.key, entry.shape, 0, 0});
  const auto wrapper = run.find(entry.key);
  out.run.push_back({entry.key, number, wrapper == run.end() ? "" : wrapper->second});
  return AddChunks(out, entry, {WholeTensor(entry.key, 0, number, entry.shape), entry.shape, -1});
}

// TorchTitan's expert balancing adds them to the router's scores. Zeros have no effect, and are
// made again for TorchTitan; for others a warning says that no other format has a place for them.
Result<bool> IsIdleBuffer(BoundArtifact& out, const dcp::StoredEntry& entry) {
  if (!dcp::IsTitanBuffer(entry.key)) return false;
  NXDKIT_ASSIGN(const bool zeros, IsAllZeros(entry));
  if (!zeros)
    out.artifact.warnings.push_back(
        fmt::format("{} is not zero: the model adds it to the scores of its router, and only a "
                    "checkpoint of TorchTitan has a place for it",
                    entry.key));
  return zeros;
}

// The tensors of the run's state are bound with the optimizer's, or not at all.
Status BindRunTensors(BoundArtifact& out, const InputHints& hints, const RunKeys& run) {
  for (const dcp::StoredEntry& entry : DcpFolderOf(out.artifact)->tensors) {
    if (!run.contains(entry.key) && !hints.optimizer) continue;
    NXDKIT_ASSIGN(const bool idle, IsIdleBuffer(out, entry));
    if (!idle && hints.optimizer && IsCarried(out, entry, run))
      NXDKIT_TRY(AddRunTensor(out, entry, run));
    else if (run.contains(entry.key))
      out.left_out.push_back(entry.key);
  }
  return OkStatus();
}

// Names all objects but those from which the optimizer's numbers are written; without the
// optimizer, none of its objects.
void NameRunObjects(BoundArtifact& out, const InputHints& hints) {
  for (const dcp::ObjectEntry& object : DcpFolderOf(out.artifact)->metadata.objects) {
    const std::string_view key = object.key;
    const bool of_optimizer = key.starts_with(kOptimizerPrefix) || key == kNumberedFormKey;
    if (of_optimizer && !hints.optimizer) continue;
    if (key.starts_with(kOptimizerState) && out.optimizer) continue;
    out.run_objects.push_back(object.key);
  }
}

Status BindWithModel(BoundArtifact& out, const InputHints& hints, RunKeys& run) {
  NXDKIT_ASSIGN(out.model, MakeModel(*out.artifact.config).in(out.artifact.config_path));
  out.params = out.model->Logical();
  UnwrapKeys(out.artifact, *out.model);
  const DcpTensors known = KnownDcpTensors(*out.model, *DcpFolderOf(out.artifact));
  const std::string prefix = FindPrefix(*DcpFolderOf(out.artifact), known);
  run = FindRunKeys(*DcpFolderOf(out.artifact), known, prefix);
  NXDKIT_TRY(BindModel(out, known, prefix, run));
  return hints.optimizer ? BindDcpOptimizer(out, known) : OkStatus();
}

// The base of a run with a LoRA adapter, and the adapter.
Status BindBase(BoundArtifact& out, LoraTake take, const InputHints& hints) {
  const Artifact whole = out.artifact;
  KeepBase(out.artifact, hints);
  InputHints base_hints = hints;
  base_hints.optimizer = false;
  base_hints.lora_alpha.reset();
  base_hints.Reset(kLoraTakeRow.name());
  NXDKIT_TRY(BindDcp(out, base_hints));
  if (take == LoraTake::kBase) return OkStatus();
  BoundArtifact adapter;
  const models::Model* const model = out.model ? &*out.model : nullptr;
  NXDKIT_TRY(BindLoraOf(adapter, whole, {&out.params, model, whole.path}, {}, hints));
  adapter.artifact.files.front().file_bytes = 0;  // already counted
  adapter.bound.layout.files = adapter.artifact.ranks;
  adapter.model = out.model;
  NXDKIT_TRY(CheckBinding(adapter.bound));
  NXDKIT_ASSIGN(out, MergeAdapter(std::move(out), std::move(adapter)));
  return OkStatus();
}

}  // namespace

Result<bool> IsAllZeros(const dcp::StoredEntry& entry) {
  for (const dcp::StoredChunk& chunk : entry.chunks) {
    if (chunk.stored.shape.size() != 1 || !IsPacked(chunk.stored)) return false;
    NXDKIT_ASSIGN(const bool zeros, IsZeroFrom(chunk.stored, 0).on(entry.key));
    if (!zeros) return false;
  }
  return true;
}

Status BindDcp(BoundArtifact& out, const InputHints& hints) {
  WarnOfConfig(out.artifact);
  NXDKIT_TRY(CheckLoraTake(out.artifact, hints));
  const LoraTake take = LoraTakeOf(out.artifact, hints);
  if (take == LoraTake::kMerged || take == LoraTake::kBase) return BindBase(out, take, hints);
  if (take == LoraTake::kAdapter && hints.Has(kLoraTakeRow.name()))
    return Unsupported("the adapter alone was asked for, but a model is needed")
        .in(out.artifact.path)
        .hint(
            "nxd-convert writes the adapter (--to hf, --to nxd), or merges it into a base "
            "(--merge-lora)");
  const bool as_stored = take == LoraTake::kAdapter || HasLora(out.artifact);
  const bool has_model = !as_stored && out.artifact.config && out.artifact.config->family;
  RunKeys run;
  NXDKIT_TRY(has_model ? BindWithModel(out, hints, run) : BindPlainDcp(out, hints, run));
  out.objects = DcpObjectsOf(out.artifact);
  NameRunObjects(out, hints);
  return BindRunTensors(out, hints, run);
}

}  // namespace nxdkit::kinds
