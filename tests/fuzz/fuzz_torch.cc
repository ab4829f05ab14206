// Whole torch archives: ReadArchive, then everything a caller would do with the result.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "formats/torch/archive.h"
#include "tests/formats/torch/memory_file.h"

namespace nxdkit::torch {
namespace {

size_t Walk(const PickleValue& value) {
  size_t visits = 1;
  if (const PickleDict* dict = value.dict())
    for (const auto& [key, item] : *dict) visits += Walk(key) + Walk(item);
  if (const PickleList* list = value.list())
    for (const PickleValue& item : *list) visits += Walk(item);
  return visits;
}

// The first and the last bytes of the tensor's storage: every claim about them was checked.
void ReadEnds(const StoredTensor& tensor) {
  if (tensor.storage == nullptr) std::abort();
  const auto size = static_cast<size_t>(std::min<uint64_t>(tensor.storage->bytes(), 4096));
  std::string bytes(size, '\0');
  const auto to = std::as_writable_bytes(std::span(bytes));
  (void)tensor.storage->ReadAt(0, to);
  (void)tensor.storage->ReadAt(tensor.storage->bytes() - size, to);
  if (tensor.storage->ReadAt(tensor.storage->bytes(), to).ok() && size != 0) std::abort();
}

void Use(const Archive& archive) {
  if (Walk(archive.root) == 0) std::abort();
  for (const StoredTensor& tensor : archive.tensors) ReadEnds(tensor);
  (void)FlattenStateDict(archive);
}

}  // namespace
}  // namespace nxdkit::torch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static const torch::MemoryFile file;
  file.Replace(std::string_view(reinterpret_cast<const char*>(data), size));
  (void)torch::LooksLikeArchive(file.path());
  for (const bool check_crc : {false, true}) {
    const Result<torch::Archive> archive =
        torch::ReadArchive(file.path(), {.check_crc = check_crc});
    if (archive.ok())
      torch::Use(*archive);
    else if (archive.error().file().empty() || archive.error().code() == Errc::kInternal)
      std::abort();
  }
  return 0;
}
