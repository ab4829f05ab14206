// Any bytes as a delta, and as one block of one: refused with a place, or changes within the
// tensor.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "formats/delta/delta.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

namespace {

using namespace nxdkit;

void RequireRefusal(const Error& error, size_t size) {
  Require(error.code() == Errc::kCorrupt || error.code() == Errc::kUnsupported, error.ToString());
  Require(error.offset().has_value() && *error.offset() <= size, error.ToString());
}

void TryChanges(const delta::Changes& changes, Dtype dtype, uint64_t elements) {
  Require(changes.at.size() == changes.values.size(), "a value for each change");
  for (size_t i = 0; i < changes.at.size(); ++i)
    Require(changes.at[i] < elements && (i == 0 || changes.at[i - 1] < changes.at[i]), "positions");
  std::vector<std::byte> bytes(elements * static_cast<uint64_t>(ElementBytes(dtype)));
  for (const delta::Coding coding : {delta::Coding::kRaw, delta::Coding::kUlp})
    delta::Apply(changes, dtype, coding, 0, bytes);
}

void TryFile(std::string_view data) {
  static testing_util::MemoryFile memory;
  memory.Set(data);
  const auto file = delta::Delta::Open(memory.path());
  if (!file.ok()) return RequireRefusal(file.error(), data.size());
  delta::BlockDecoder decoder;
  delta::Changes changes;
  for (size_t p = 0; p < (*file)->head().params.size(); ++p) {
    const delta::Param& param = (*file)->head().params[p];
    for (uint64_t b = 0; b < param.blocks(); ++b) {
      const Status read = (*file)->Read(p, b, decoder, changes);
      if (!read.ok())
        RequireRefusal(read.error(), data.size());
      else
        TryChanges(changes, param.dtype, param.block_elements(b));
    }
  }
}

void TryBlock(std::string_view data) {
  if (data.size() < 3) return;
  constexpr Dtype kDtypes[] = {Dtype::kU8, Dtype::kBF16, Dtype::kF32, Dtype::kF64};
  const Dtype dtype = kDtypes[static_cast<uint8_t>(data[0]) % 4];
  const uint64_t elements =
      1 + static_cast<uint8_t>(data[1]) + 256u * static_cast<uint8_t>(data[2]);
  const std::span<const std::byte> block = std::as_bytes(std::span(data.substr(3)));
  delta::BlockDecoder decoder;
  delta::Changes changes;
  const Status decoded = decoder.Decode(dtype, elements, block, changes);
  if (!decoded.ok()) return RequireRefusal(decoded.error(), block.size());
  TryChanges(changes, dtype, elements);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TryFile(bytes);
  TryBlock(bytes);
  return 0;
}
