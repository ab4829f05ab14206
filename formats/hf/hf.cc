#include "formats/hf/hf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
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

// The lookup order of the reference.
constexpr std::array<std::string_view, 4> kLookups = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};
// The same weights under Mistral's own names, which transformers never looks for.
constexpr std::string_view kConsolidated = "consolidated.safetensors";
constexpr std::string_view kIndexEnd = ".index.json";

// Those of the names that exist in the folder.
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

// The parts of "model-00001-of-00003.safetensors".
struct ShardName {
  std::string_view base, end;  // "model", ".safetensors"
  int number = 0, of = 0;

  std::string Of(int other) const {
    return fmt::format("{}-{:05}-of-{:05}{}", base, other, of, end);
  }
};
std::optional<ShardName> ParseShardName(std::string_view name) {
  constexpr std::string_view kShape = "-NNNNN-of-NNNNN";
  for (const std::string_view end : {".safetensors", ".bin"})
    for (const std::string_view base : {"model", "pytorch_model", "consolidated"}) {
      if (name.size() != base.size() + kShape.size() + end.size()) continue;
      if (!name.starts_with(base) || !name.ends_with(end)) continue;
      const std::string_view middle = name.substr(base.size(), kShape.size());
      const auto number = ParseNumber<int>(middle.substr(1, 5));
      const auto of = ParseNumber<int>(middle.substr(10));
      if (middle[0] == '-' && middle.substr(6, 4) == "-of-" && number && of)
        return ShardName{base, end, *number, *of};
    }
  return std::nullopt;
}

// All shards of the set whose first is `first`; empty if one is missing.
Result<std::vector<std::string>> NumberedShards(const std::string& folder, std::string_view first,
                                                const Looker& look) {
  const std::optional<ShardName> shard = ParseShardName(first);
  std::vector<std::string> all;
  if (!shard || shard->number != 1) return all;
  for (int i = 1; i <= shard->of; ++i) {
    all.push_back(shard->Of(i));
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, all.back()));
    if (!there) return std::vector<std::string>();
  }
  return all;
}

// "model.fp16.safetensors", "pytorch_model.bf16.bin": a variant, in the hub's term. A shard of one
// does not count.
bool IsVariant(std::string_view name) {
  if (name.find("-of-") != name.npos) return false;
  for (const auto& [begin, end] :
       {std::pair<std::string_view, std::string_view>{"model.", ".safetensors"},
        {"pytorch_model.", ".bin"}})
    if (name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end))
      return name.substr(begin.size(), name.size() - begin.size() - end.size()).find('.') ==
             name.npos;
  return false;
}

// Weights in a folder where the reference's lookup finds nothing: variants, and complete sets of
// shards without an index, by the first shard.
Result<std::vector<std::string>> LessUsual(const std::string& folder, const Looker& look) {
  std::vector<std::string> found;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(folder));
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const std::vector<std::string> shards, NumberedShards(folder, name, look));
    if (IsVariant(name) || !shards.empty()) found.push_back(name);
  }
  return found;
}

// The sets that are looked up by name, in the reference's order.
Result<std::vector<std::string>> LookedFor(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(std::vector<std::string> found, Present(folder, kLookups, look));
  return found.empty() ? LessUsual(folder, look) : Result<std::vector<std::string>>(found);
}

// "model.safetensors.index.json" -> ".safetensors"
std::string_view ShardExtension(std::string_view index) {
  index.remove_suffix(kIndexEnd.size());
  return index.ends_with(".bin") ? ".bin" : ".safetensors";
}

// The first shard of the folder that is not in `named`, which is sorted; "" if there is none.
Result<std::string> FirstStray(const std::string& folder, const std::vector<std::string>& named,
                               const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(folder));
  for (const std::string& name : names)
    if (ParseShardName(name) && !std::ranges::binary_search(named, name)) return name;
  return std::string();
}

// The sets of WeightSets. A file that `read` names has been read already.
Result<std::vector<std::string>> SetsIn(const std::string& folder, const Index* read,
                                        const Looker& look) {
  NXDKIT_ASSIGN(std::vector<std::string> sets, LookedFor(folder, look));
  std::vector<std::string> shards;
  for (const std::string& set : sets) {
    NXDKIT_ASSIGN(const std::vector<std::string> numbered, NumberedShards(folder, set, look));
    shards.insert(shards.end(), numbered.begin(), numbered.end());
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

// Checks all files at once, so that one message lists everything that a broken download lacks.
Status CheckPresent(const std::string& folder, const Index& index, const Looker& look) {
  size_t missing = 0;
  std::string first;
  for (const std::string& name : index.files) {
    NXDKIT_ASSIGN(const bool there, look.HasFile(folder, name));
    if (there) continue;
    if (missing++ == 0) first = name;
  }
  if (missing == 0) return OkStatus();
  return NotFound("the file is missing ({} of the {} that the index names are)", missing,
                  index.files.size())
      .in(index.path)
      .member(first);
}

// Compares a file with its entries in the index, and marks the entries that were found.
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
  Checkpoint checkpoint{folder, {}, true, {}, ""};
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

// Shards without an index; no two may have the same tensor.
Result<Checkpoint> OpenNumbered(const std::string& folder, const std::vector<std::string>& shards,
                                const OpenTensorFile& open) {
  Checkpoint checkpoint{folder, {}, true, {}, ""};
  std::map<std::string, std::string> seen;
  for (const std::string& shard : shards) {
    const std::string path = JoinPath(folder, shard);
    NXDKIT_ASSIGN(TensorFile file, open(path).in(path));
    for (const StoredTensor& tensor : file.tensors)
      if (const auto [twin, added] = seen.emplace(tensor.name, shard); !added)
        return Corrupt("the tensor is in {} too", twin->second).in(path).on(tensor.name);
    checkpoint.files.push_back(std::move(file));
  }
  return checkpoint;
}

Result<Checkpoint> OpenSingle(const std::string& folder, const std::string& name,
                              const OpenTensorFile& open) {
  Checkpoint checkpoint{folder, {}, false, {}, ""};
  const std::string path = JoinPath(folder, name);
  NXDKIT_ASSIGN(TensorFile file, open(path).in(path));
  checkpoint.files.push_back(std::move(file));
  return checkpoint;
}

Error NoWeights(const std::string& folder) {
  return NotFound("no weights: none of {} exists", fmt::join(kLookups, ", ")).in(folder);
}

// The name of the set to read.
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
  NXDKIT_ASSIGN(const std::vector<std::string> found, LookedFor(folder, look));
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
  NXDKIT_ASSIGN(const std::vector<std::string> found, LookedFor(folder, look));
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
  // When one set is named, the others are not examined: they may be the broken ones.
  const Result<std::vector<std::string>> sets = SetsIn(folder, index ? &*index : nullptr, look);
  if (weights.empty() && !sets.ok()) return sets.error();
  if (weights.empty() && sets->size() > 1) return SeveralSets(folder, *sets);
  std::vector<std::string> numbered;
  if (weights.empty()) NXDKIT_TRY(NumberedShards(folder, name, look).To(numbered));
  NXDKIT_ASSIGN(Checkpoint checkpoint, index               ? OpenSharded(folder, *index, open, look)
                                       : !numbered.empty() ? OpenNumbered(folder, numbered, open)
                                                           : OpenSingle(folder, name, open));
  if (sets.ok() && sets->size() > 1)
    checkpoint.choice = Choice{JoinPath(folder, name), sets->size(), "option"};
  if (!numbered.empty())
    checkpoint.note = fmt::format("no index names the shards: all {} are taken by their numbers",
                                  numbered.size());
  else if (weights.empty() && IsVariant(name))
    checkpoint.note = name + ", a variant, is taken: there is no model.safetensors";
  return checkpoint;
}

namespace {

// Sorted. Configuration, tokenizer and processor: the files that a loader reads along with the
// weights. Not licences, cards or code.
constexpr std::array<std::string_view, 26> kSideFiles = {
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "config.json",
    "generation_config.json", "hf_quant_config.json", "merges.txt", "normalizer.json",
    "preprocessor_config.json", "processor_config.json", "quantization_config.json",
    "quantize_config.json", "sentencepiece.bpe.model",
    // Mostly tokenizers'.
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
