#include "formats/torch/archive.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/torch/byte_reader.h"
#include "formats/torch/legacy_archive.h"
#include "formats/torch/zip_archive.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/broken_download.h"
#include "lib/system/paths.h"

namespace nxdkit::torch {
namespace {

constexpr std::string_view kZipMagic("PK\3\4", 4);
constexpr std::string_view kEmptyZipMagic("PK\5\6", 4);
constexpr uint64_t kTarMagicOffset = 257;
constexpr std::string_view kTarMagic = "ustar";

// The start of the file, up to `bytes`.
Result<std::string> ReadStart(const File& file, uint64_t bytes) {
  return ReadBytes(file, 0, std::min(bytes, file.bytes()));
}

// PROTO and a protocol number start every pickle of protocol 2 or newer.
bool StartsLikePickle(std::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

Error NotAnArchive(std::string_view start) {
  if (start.empty()) return Corrupt("the file is empty").at(0);
  if (start.starts_with(kEmptyZipMagic)) return Corrupt("a zip archive without any record").at(0);
  if (start.size() >= kTarMagicOffset + kTarMagic.size() &&
      start.substr(kTarMagicOffset, kTarMagic.size()) == kTarMagic)
    return Unsupported("a tar archive, as torch wrote them before version 0.1.10")
        .at(kTarMagicOffset)
        .hint("load it with a current torch, and save it again");
  std::string bytes;
  for (const char c : start.substr(0, 8))
    bytes += fmt::format("{}{:02x}", bytes.empty() ? "" : " ", static_cast<unsigned char>(c));
  return Unsupported(
             "not a torch archive: the file starts with the bytes {}, neither a zip "
             "archive (50 4b 03 04) nor a pickle (80 02)",
             bytes)
      .at(0);
}

Result<Archive> ReadAny(std::shared_ptr<const File> file, const ReadOptions& options) {
  const Result<std::string> start = ReadStart(*file, 512);
  if (!start.ok()) return start.error();
  if (start->starts_with(kZipMagic)) return ReadZipArchive({file, 0, file->bytes()}, options);
  if (StartsLikePickle(*start)) return ReadLegacyArchive(std::move(file));
  return NotAnArchive(*start);
}

// The keys under which trainers keep the weights in a checkpoint.
constexpr const char* kWrappers[] = {"model",       "state_dict", "module", "model_state_dict",
                                     "model_state", "network",    "net",    "weights"};

bool HoldsTensors(const PickleDict& dict) {
  return std::ranges::any_of(dict, [](const auto& item) {
    return item.second.tensor() != nullptr || item.second.reference() != nullptr;
  });
}

std::string KeyText(const PickleValue& key) {
  if (key.string() != nullptr) return EscapeControl(*key.string());
  if (key.integer() != nullptr) return fmt::format("{}", *key.integer());
  return "(key of another type)";
}

// The state dict: the root, or one level below. A trainer's dict may hold tensors that are not
// weights (a step counter), so dicts under a known name come first.
Result<const PickleDict*> FindStateDict(const PickleValue& root, std::string* from = nullptr) {
  const PickleDict* top = root.dict();
  if (top == nullptr)
    return Unsupported("the file holds no dict of tensors")
        .hint(root.tensor() != nullptr ? "it holds one bare tensor" : "");
  for (const char* wrapper : kWrappers) {
    const PickleValue* inner = root.Find(wrapper);
    if (inner != nullptr && inner->dict() != nullptr && HoldsTensors(*inner->dict()))
      return inner->dict();
  }
  if (top->empty() || HoldsTensors(*top)) return top;
  std::vector<std::string> others;
  const PickleDict* only = nullptr;
  for (const auto& [key, value] : *top) {
    if (value.dict() == nullptr || !HoldsTensors(*value.dict())) continue;
    only = value.dict();
    others.push_back(KeyText(key));
  }
  if (others.size() == 1 && from) *from = others.front();
  if (others.size() == 1) return only;
  if (others.empty()) return Unsupported("the dict holds no tensor, and no dict in it does");
  return Unsupported("{} dicts of tensors are in the file: {}; none has a usual name for weights",
                     others.size(), FirstNames(others, 5));
}

}  // namespace

Result<bool> LooksLikeArchive(const std::string& path) {
  const Result<std::string> start = nxdkit::ReadStart(path, kZipMagic.size());
  if (!start.ok()) return start.error();
  return start->starts_with(kZipMagic) || StartsLikePickle(*start);
}

Result<Archive> ReadArchive(const std::string& path, const ReadOptions& options) {
  NXDKIT_ASSIGN(File opened, File::OpenRead(path));
  auto file = std::make_shared<const File>(std::move(opened));  // shared by all its storages
  NXDKIT_ASSIGN(Archive archive, OrWrongAnswer(ReadAny(file, options).in(path), path));
  archive.path = path;
  archive.file_bytes = file->bytes();
  return archive;
}

Result<Archive> ReadArchiveAt(const std::shared_ptr<const File>& file, uint64_t offset,
                              uint64_t bytes, const ReadOptions& options) {
  Result<Archive> archive = ReadZipArchive({file, offset, bytes}, options);
  if (!archive.ok()) {
    const Error& error = archive.error();
    Error told(error.code(),
               fmt::format("in the archive of {} bytes at {}: {}", bytes, offset, error.message()));
    if (error.offset()) told = std::move(told).at(*error.offset());
    return std::move(told)
        .in(file->path())
        .member(error.member())
        .on(error.tensor())
        .hint(error.hint());
  }
  archive->path = file->path();
  archive->file_bytes = bytes;
  return archive;
}

bool RefersToFiles(const Archive& archive) {
  const Result<const PickleDict*> found = FindStateDict(archive.root);
  return found.ok() && std::ranges::any_of(**found, [](const auto& item) {
           return item.second.reference() != nullptr;
         });
}

std::span<const char* const> StateDictNames() { return kWrappers; }

Result<TensorFile> FlattenStateDict(const Archive& archive, std::vector<std::string>* skipped,
                                    std::string* from) {
  NXDKIT_ASSIGN(const PickleDict* found, FindStateDict(archive.root, from).in(archive.path));
  // The other entries of a trainer's dict.
  if (skipped != nullptr && found != archive.root.dict())
    for (const auto& [key, value] : *archive.root.dict())
      if (value.dict() != found) skipped->push_back(KeyText(key));
  TensorFile file;
  file.path = archive.path;
  file.format = archive.format;
  file.file_bytes = archive.file_bytes;
  for (const auto& [key, value] : *found) {
    if (value.reference() != nullptr)
      return Unsupported(
                 "the tensor is not in this file, but in tensor_{}.pt of the folder {}.tensors",
                 value.reference()->tid, BaseName(archive.path))
          .in(archive.path)
          .on(KeyText(key))
          .hint(
              "this is a file of an NxD checkpoint that was saved with xser; name the "
              "checkpoint's folder instead");
    if (value.tensor() == nullptr) {
      if (skipped != nullptr) skipped->push_back(KeyText(key));
      continue;
    }
    if (key.string() == nullptr)
      return Unsupported("a tensor has the key {}, expected a name", KeyText(key)).in(archive.path);
    StoredTensor tensor = archive.tensors[value.tensor()->index];
    tensor.name = *key.string();
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

}  // namespace nxdkit::torch
