// Moves a part of the elements of an HF folder's bf16 weights by one representable value, in place,
// as a step of reinforcement learning does.
//   perturb FOLDER PERCENT SEED
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"

using namespace nxdkit;

namespace {

Status Perturb(const StoredTensor& tensor, double percent, std::mt19937_64& random) {
  if (tensor.dtype != Dtype::kBF16) return OkStatus();
  NXDKIT_ASSIGN(const File file, File::OpenWrite(tensor.storage->path()));
  const uint64_t at = tensor.storage->file_offset() + tensor.offset;
  std::vector<uint16_t> values(static_cast<size_t>(*ElementCount(tensor.shape)));
  const auto bytes = std::as_writable_bytes(std::span(values));
  NXDKIT_TRY(file.ReadAt(at, bytes));
  std::geometric_distribution<size_t> gap(percent / 100);
  for (size_t i = gap(random); i < values.size(); i += 1 + gap(random))
    values[i] = static_cast<uint16_t>(values[i] + (random() % 2 == 0 ? 1 : -1));
  return file.WriteAt(at, bytes);
}

Status Run(const std::string& folder, double percent, uint64_t seed) {
  NXDKIT_ASSIGN(const ops::Artifact model, ops::OpenArtifact(folder, &ops::kHf, {}));
  std::mt19937_64 random(seed);
  for (const TensorFile& file : model.files)
    for (const StoredTensor& tensor : file.tensors) NXDKIT_TRY(Perturb(tensor, percent, random));
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: perturb FOLDER PERCENT SEED\n");
    return 2;
  }
  const Status done = Run(argv[1], std::atof(argv[2]), std::strtoull(argv[3], nullptr, 10));
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
  return 1;
}
