// Any bytes as an index: read with safe, sorted, unique names, or refused.
#include <string>
#include <string_view>

#include "formats/hf/index.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile memory;
  memory.Set(TextOf(data, size));
  const Result<hf::Index> index = hf::ReadIndex(memory.path(), ".safetensors");
  if (!index.ok()) {
    const Errc code = index.error().code();
    Require(code == Errc::kCorrupt || code == Errc::kLimit, index.error().ToString());
    return 0;
  }
  for (const std::string& file : index->files) {
    Require(hf::ShardFileNameFault(file, ".safetensors").empty(), file);
    Require(file.find('/') == file.npos && file != "..", file);
  }
  for (size_t i = 0; i < index->entries.size(); ++i) {
    const hf::Index::Entry& entry = index->entries[i];
    Require(entry.file < index->files.size(), "file number");
    Require(i == 0 || index->entries[i - 1].tensor < entry.tensor, "order of the entries");
    Require(hf::Find(*index, entry.tensor) == &entry, "Find");
  }
  return 0;
}
