// A flat view of an archive: names and tensors.
#include <fmt/core.h>

#include <algorithm>

#include "formats/torch/archive.h"
#include "lib/base/text.h"
#include "lib/system/paths.h"

namespace nxdkit::torch {
namespace {

// Where trainers keep the weights beside the rest of a checkpoint.
constexpr const char* kWrappers[] = {"model", "state_dict", "module"};

bool HoldsTensors(const PickleDict& dict) {
  return std::ranges::any_of(dict, [](const auto& item) {
    return item.second.tensor() != nullptr || item.second.reference() != nullptr;
  });
}

// The state dict: the root, or one level below. A trainer's dict may hold tensors beside the
// weights (a step counter), so what lies under a known name comes first.
Result<const PickleDict*> FindStateDict(const PickleValue& root) {
  const PickleDict* top = root.dict();
  if (top == nullptr)
    return Error(Errc::kUnsupported, "the file holds no dict of tensors")
        .hint(root.tensor() != nullptr ? "it holds one bare tensor" : "");
  for (const char* wrapper : kWrappers) {
    const PickleValue* inner = root.Find(wrapper);
    if (inner != nullptr && inner->dict() != nullptr && HoldsTensors(*inner->dict()))
      return inner->dict();
  }
  if (top->empty() || HoldsTensors(*top)) return top;
  return Error(Errc::kUnsupported,
               "the dict holds no tensor, and none under \"model\", \"state_dict\" or \"module\"");
}

std::string KeyText(const PickleValue& key) {
  if (key.string() != nullptr) return EscapeControl(*key.string());
  if (key.integer() != nullptr) return fmt::format("{}", *key.integer());
  return "(key of another type)";
}

}  // namespace

Result<TensorFile> FlattenStateDict(const Archive& archive, std::vector<std::string>* skipped) {
  Result<const PickleDict*> found = FindStateDict(archive.root);
  if (!found.ok()) return std::move(found).error().in(archive.path);
  // What a trainer keeps beside the weights.
  if (skipped != nullptr && *found != archive.root.dict())
    for (const auto& [key, value] : *archive.root.dict())
      if (value.dict() != *found) skipped->push_back(KeyText(key));
  TensorFile file;
  file.path = archive.path;
  file.format = archive.format;
  file.file_bytes = archive.file_bytes;
  for (const auto& [key, value] : **found) {
    if (value.reference() != nullptr)
      return Error(Errc::kUnsupported,
                   fmt::format("the tensor is not in this file, but in tensor_{}.pt "
                               "of the folder {}.tensors",
                               value.reference()->tid, BaseName(archive.path)))
          .in(archive.path)
          .on(KeyText(key))
          .hint(
              "this is a file of an NxD checkpoint that was saved with xser; name the checkpoint's "
              "folder instead");
    if (value.tensor() == nullptr) {
      if (skipped != nullptr) skipped->push_back(KeyText(key));
      continue;
    }
    if (key.string() == nullptr)
      return Error(Errc::kUnsupported,
                   fmt::format("a tensor has the key {}, expected a name", KeyText(key)))
          .in(archive.path);
    StoredTensor tensor = archive.tensors[value.tensor()->index];
    tensor.name = *key.string();
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

}  // namespace nxdkit::torch
