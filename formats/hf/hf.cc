#include "formats/hf/hf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/hf/index.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"

namespace nxdkit::hf {
namespace {

// In the order in which the reference looks for them.
constexpr std::array<std::string_view, 4> kLookups = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};
// The same weights in Mistral's own names, which no transformers looks for.
constexpr std::string_view kConsolidated = "consolidated.safetensors";
constexpr std::string_view kIndexEnd = ".index.json";

// Those of the names that the folder has.
Result<std::vector<std::string>> Present(const std::string& folder,
                                         std::span<const std::string_view> names,
                                         const Looker& look) {
  std::vector<std::string> present;
  for (const std::string_view name : names) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (there) present.emplace_back(name);
  }
  return present;
}

// "model.safetensors.index.json" -> ".safetensors"
std::string_view ShardExtension(std::string_view index) {
  index.remove_suffix(kIndexEnd.size());
  return index.ends_with(".bin") ? ".bin" : ".safetensors";
}

// "model-00001-of-00003.safetensors", "pytorch_model-00002-of-00002.bin"
bool IsShardName(std::string_view name) {
  constexpr std::string_view kShape = "-NNNNN-of-NNNNN";
  for (const std::string_view end : {".safetensors", ".bin"})
    for (const std::string_view base : {"model", "pytorch_model", "consolidated"}) {
      if (name.size() != base.size() + kShape.size() + end.size()) continue;
      if (!name.starts_with(base) || !name.ends_with(end)) continue;
      const std::string_view middle = name.substr(base.size(), kShape.size());
      bool fits = true;
      for (size_t i = 0; i < kShape.size(); ++i)
        fits &= kShape[i] == 'N' ? IsDigit(middle[i]) : middle[i] == kShape[i];
      if (fits) return true;
    }
  return false;
}

// The first shard of the folder that is not in `named`, which is sorted; "" when there is none.
Result<std::string> FirstStray(const std::string& folder, const std::vector<std::string>& named,
                               const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(folder));
  for (const std::string& name : names)
    if (IsShardName(name) && !std::ranges::binary_search(named, name)) return name;
  return std::string();
}

// Those of WeightSets. What `read` names was read already.
Result<std::vector<std::string>> SetsIn(const std::string& folder, const Index* read,
                                        const Looker& look) {
  NXDKIT_ASSIGN(std::vector<std::string> sets, Present(folder, kLookups, look));
  std::vector<std::string> shards;
  for (const std::string& set : sets) {
    if (!IsIndexName(set)) continue;
    const std::string path = JoinPath(folder, set);
    Index other;
    if (!read || read->path != path) NXDKIT_TRY(ReadIndex(path, ShardExtension(set)).To(other));
    const Index& index = read && read->path == path ? *read : other;
    shards.insert(shards.end(), index.files.begin(), index.files.end());
  }
  std::ranges::sort(shards);
  NXDKIT_ASSIGN(const bool has_consolidated, look.HasFile(folder, kConsolidated));
  if (has_consolidated) sets.emplace_back(kConsolidated);
  NXDKIT_ASSIGN(std::string stray, FirstStray(folder, shards, look));
  if (!stray.empty()) sets.push_back(std::move(stray));
  return sets;
}

// All at once, so that one message shows what a broken download lacks.
Status CheckPresent(const std::string& folder, const Index& index, const Looker& look) {
  size_t missing = 0;
  std::string first;
  for (const std::string& name : index.files) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (there) continue;
    if (missing++ == 0) first = name;
  }
  if (missing == 0) return OkStatus();
  return NotFound("{} is missing ({} of the {} files it names are)", first, missing,
                  index.files.size())
      .in(index.path)
      .member(first);
}

// Holds what a file has against what the index says of it, and notes the entries that were found.
Status CheckFile(const TensorFile& file, size_t number, const Index& index,
                 std::vector<bool>& found) {
  for (const StoredTensor& tensor : file.tensors) {
    const Index::Entry* const entry = Find(index, tensor.name);
    if (!entry || entry->file != number)
      return (entry ? Corrupt("the index puts this tensor into {}", index.files[entry->file])
                    : Corrupt("the index {} does not name this tensor", BaseName(index.path)))
          .in(file.path)
          .on(tensor.name);
    found[static_cast<size_t>(entry - index.entries.data())] = true;
  }
  return OkStatus();
}

Status CheckNoGhosts(const Index& index, const std::vector<bool>& found) {
  for (size_t i = 0; i < found.size(); ++i)
    if (!found[i])
      return Corrupt("the index puts this tensor into {}, which lacks it",
                     index.files[index.entries[i].file])
          .in(index.path)
          .on(index.entries[i].tensor);
  return OkStatus();
}

Result<Checkpoint> OpenSharded(const std::string& folder, const Index& index,
                               const OpenTensorFile& open, const Looker& look) {
  NXDKIT_TRY(CheckPresent(folder, index, look));
  Checkpoint checkpoint{folder, {}, true, {}};
  std::vector<bool> found(index.entries.size());
  for (size_t i = 0; i < index.files.size(); ++i) {
    const std::string path = JoinPath(folder, index.files[i]);
    NXDKIT_ASSIGN(TensorFile file, open(path).in(path));
    NXDKIT_TRY(CheckFile(file, i, index, found));
    checkpoint.files.push_back(std::move(file));
  }
  NXDKIT_TRY(CheckNoGhosts(index, found));
  return checkpoint;
}

Result<Checkpoint> OpenSingle(const std::string& folder, const std::string& name,
                              const OpenTensorFile& open) {
  Checkpoint checkpoint{folder, {}, false, {}};
  const std::string path = JoinPath(folder, name);
  NXDKIT_ASSIGN(TensorFile file, open(path).in(path));
  checkpoint.files.push_back(std::move(file));
  return checkpoint;
}

Error NoWeights(const std::string& folder) {
  return NotFound("no weights: none of {} is there", fmt::join(kLookups, ", ")).in(folder);
}

// The one that is read.
Result<std::string> NameOfWeights(const std::string& folder, const std::string& weights,
                                  const Looker& look) {
  if (!weights.empty()) {
    const std::string name = BaseName(weights);
    NXDKIT_ASSIGN(const bool here,
                  name == weights ? Result<bool>(true) : SamePath(ParentPath(weights), folder));
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (here && there) return name;
    return BadUsage("{} is not a file of this folder", EscapeControl(weights)).in(folder);
  }
  NXDKIT_ASSIGN(const std::vector<std::string> found, Present(folder, kLookups, look));
  if (found.empty()) return NoWeights(folder);
  return found.front();
}

Error SeveralSets(const std::string& folder, const std::vector<std::string>& sets) {
  return BadUsage("{} sets of weights are in the folder, and nothing says which is the model: {}",
                  sets.size(), FirstNames(sets, 5))
      .in(folder);
}

}  // namespace

Result<bool> HasWeights(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> found, Present(folder, kLookups, look));
  return !found.empty();
}

bool IsIndexName(std::string_view path) {
  return path.ends_with(".safetensors.index.json") || path.ends_with(".bin.index.json");
}

Result<std::vector<std::string>> WeightSets(const std::string& folder, const Looker& look) {
  return SetsIn(folder, nullptr, look);
}

Result<Checkpoint> Open(const std::string& folder, const OpenTensorFile& open,
                        const std::string& weights, const Looker& look) {
  NXDKIT_ASSIGN(const std::string name, NameOfWeights(folder, weights, look));
  std::optional<Index> index;
  if (IsIndexName(name))
    NXDKIT_TRY(ReadIndex(JoinPath(folder, name), ShardExtension(name)).To(index));
  // Of the others nothing is asked where one is named: they may be what is broken.
  const Result<std::vector<std::string>> sets = SetsIn(folder, index ? &*index : nullptr, look);
  if (weights.empty() && !sets.ok()) return sets.error();
  if (weights.empty() && sets->size() > 1) return SeveralSets(folder, *sets);
  NXDKIT_ASSIGN(Checkpoint checkpoint,
                index ? OpenSharded(folder, *index, open, look) : OpenSingle(folder, name, open));
  if (sets.ok() && sets->size() > 1)
    checkpoint.choice = Choice{JoinPath(folder, name), sets->size(), "option"};
  return checkpoint;
}

namespace {

// Sorted. Configuration, tokenizer and processor: what a loader reads beside the weights. Not
// licences, cards or code.
// Sorted. Configuration, tokenizer and processor: what a loader reads beside the weights. Not
// licences, cards or code.
constexpr std::array<std::string_view, 26> kSideFiles = {
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "config.json",
    "generation_config.json", "hf_quant_config.json", "merges.txt", "normalizer.json",
    "preprocessor_config.json", "processor_config.json", "quantization_config.json",
    "quantize_config.json", "sentencepiece.bpe.model",
    // Tokenizers', mostly.
    "source.spm", "special_tokens_map.json", "spiece.model", "target.spm", "tekken.json",
    "tiktoken.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "video_preprocessor_config.json", "vocab.bpe", "vocab.json", "vocab.txt"};

}  // namespace

Result<std::vector<std::string>> SideFiles(const std::string& folder, const Looker& look) {
  return Present(folder, kSideFiles, look);
}

Result<std::optional<std::string>> ReadSettings(const std::string& path) {
  if (!path.ends_with("_config.json") && !path.ends_with("special_tokens_map.json"))
    return std::optional<std::string>();
  constexpr uint64_t kMaxSettings = uint64_t{64} << 20;
  NXDKIT_ASSIGN(std::string text, ReadSmallFile(path, kMaxSettings));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return std::optional(std::move(text));
  return Corrupt("found {}, expected a JSON object: the file sets nothing",
                 first == std::string::npos ? "nothing"
                                            : "'" + EscapeControl(text.substr(first, 1)) + "'")
      .in(path);
}

}  // namespace nxdkit::hf
