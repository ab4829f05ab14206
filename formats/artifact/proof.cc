#include "formats/artifact/proof.h"

#include <fmt/core.h>

#include <set>

#include "lib/base/parallel.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::artifact {
namespace {

struct Record {
  const StoredTensor* tensor;  // the first one in it
  const CheckedStorage* storage;
};

// Adds the records of the artifact and of those that it is merged from, each once.
void AddRecords(const BoundArtifact& bound, std::set<const CheckedStorage*>& seen,
                std::vector<Record>& records) {
  for (const TensorFile& file : bound.artifact.files)
    for (const StoredTensor& tensor : file.tensors)
      if (const CheckedStorage* storage = tensor.storage->checked())
        if (seen.insert(storage).second) records.push_back({&tensor, storage});
  if (bound.base) AddRecords(*bound.base, seen, records);
  if (bound.merged) AddRecords(*bound.merged, seen, records);
}

bool IsToBeProved(const CheckedStorage& storage, Proving proving) {
  if (storage.is_proved()) return false;
  const uint64_t seen = storage.seen_bytes();
  if (proving == Proving::kMost) return seen >= storage.bytes() - storage.bytes() / 2;
  return proving == Proving::kAll || seen > 0;
}

}  // namespace

Result<Proof> Prove(const BoundArtifact& artifact, Proving proving, const RunOptions& run) {
  std::set<const CheckedStorage*> seen;
  std::vector<Record> records;
  AddRecords(artifact, seen, records);
  std::vector<Record> open;
  uint64_t bytes = 0;
  for (const Record& record : records) {
    if (!IsToBeProved(*record.storage, proving)) continue;
    open.push_back(record);
    bytes += record.storage->bytes() - record.storage->seen_bytes();
  }
  if (run.begin && bytes > 0) run.begin("checking checksums", bytes);
  const auto prove = [&](size_t i) -> Status {
    if (run.poll) NXDKIT_TRY(run.poll());
    const uint64_t unseen = open[i].storage->bytes() - open[i].storage->seen_bytes();
    NXDKIT_TRY(open[i].storage->Prove().on(open[i].tensor->name));
    if (run.on_bytes) run.on_bytes(unseen);
    return OkStatus();
  };
  NXDKIT_TRY(ParallelFor(open.size(), run.jobs, prove));
  Proof proof;
  for (const Record& record : records) {
    if (record.storage->is_proved()) ++proof.proved;
    if (record.storage->is_proved() || record.storage->seen_bytes() == 0) continue;
    if (proof.partly++ == 0)
      proof.first = fmt::format("{} in {}", record.tensor->name, record.storage->path());
  }
  return proof;
}

std::vector<std::string> ProofNotes(const Proof& proof) {
  if (proof.partly == 0) return {};
  return {
      fmt::format("{} records were read in part, so their checksums prove nothing; the first is {} "
                  "(--verify reads them completely)",
                  proof.partly, proof.first)};
}

}  // namespace nxdkit::artifact
