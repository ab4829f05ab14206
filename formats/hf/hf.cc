#include "formats/hf/hf.h"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/hf/index.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::hf {
namespace {

// In the order in which the reference looks for them.
struct Candidate {
  std::string_view file;
  std::string_view shard_extension;  // "" when the file is not an index
};
constexpr std::array<Candidate, 4> kCandidates = {{
    {"model.safetensors", ""},
    {"model.safetensors.index.json", ".safetensors"},
    {"pytorch_model.bin", ""},
    {"pytorch_model.bin.index.json", ".bin"},
}};

// nullptr when there are none.
Result<const Candidate*> FindWeights(const std::string& folder) {
  for (const Candidate& candidate : kCandidates) {
    NXDKIT_ASSIGN(const bool there, HasFile(folder, candidate.file));
    if (there) return &candidate;
  }
  return nullptr;
}

// All at once, so that one message shows what a broken download lacks.
Status CheckPresent(const std::string& folder, const Index& index) {
  size_t missing = 0;
  std::string first;
  for (const std::string& name : index.files) {
    NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
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
    if (entry == nullptr)
      return Corrupt("the index {} does not name this tensor", BaseName(index.path))
          .in(file.path)
          .on(tensor.name);
    if (entry->file != number)
      return Corrupt("the index puts this tensor into {}", index.files[entry->file])
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

Result<Checkpoint> OpenSharded(const std::string& folder, const Candidate& candidate,
                               const OpenTensorFile& open) {
  NXDKIT_ASSIGN(const Index index,
                ReadIndex(JoinPath(folder, candidate.file), candidate.shard_extension));
  NXDKIT_TRY(CheckPresent(folder, index));
  Checkpoint checkpoint{folder, {}, true};
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

}  // namespace

Result<bool> HasWeights(const std::string& folder) {
  NXDKIT_ASSIGN(const Candidate* const weights, FindWeights(folder));
  return weights != nullptr;
}

Result<Checkpoint> Open(const std::string& folder, const OpenTensorFile& open) {
  NXDKIT_ASSIGN(const Candidate* const weights, FindWeights(folder));
  if (weights == nullptr) {
    std::string names;
    for (const Candidate& candidate : kCandidates)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate.file);
    return NotFound("no weights: none of {} is there", names).in(folder);
  }
  if (!weights->shard_extension.empty()) return OpenSharded(folder, *weights, open);
  Checkpoint checkpoint{folder, {}, false};
  const std::string path = JoinPath(folder, weights->file);
  NXDKIT_ASSIGN(TensorFile file, open(path).in(path));
  checkpoint.files.push_back(std::move(file));
  return checkpoint;
}

namespace {

// Sorted. Configuration, tokenizer and processor: what a loader reads beside the weights. Not
// licences, cards or code.
constexpr std::array<std::string_view, 26> kSideFiles = {
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "hf_quant_config.json",
    "merges.txt",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "quantization_config.json",
    "quantize_config.json",
    "sentencepiece.bpe.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "target.spm",
    "tekken.json",
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.bpe",
    "vocab.json",
    "vocab.txt",
};

}  // namespace

Result<std::vector<std::string>> SideFiles(const std::string& folder) {
  std::vector<std::string> present;
  for (const std::string_view name : kSideFiles) {
    NXDKIT_ASSIGN(const bool there, HasFile(folder, name));
    if (there) present.emplace_back(name);
  }
  return present;
}

}  // namespace nxdkit::hf
