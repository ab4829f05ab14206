#include "formats/artifact/proof.h"

#include <fmt/core.h>

#include <set>

#include "lib/base/parallel.h"
#include "lib/tensor/checked_storage.h"

namespace nxdkit::ops {
namespace {

struct Record {
  const StoredTensor* tensor;  // the first that lies in it
  const CheckedStorage* storage;
};

class Records {
 public:
  void AddOf(const BoundArtifact& bound) {
    AddOf(bound.artifact);
    if (bound.base) AddOf(*bound.base);
    if (bound.merged) AddOf(*bound.merged);
  }
  const std::vector<Record>& all() const { return records_; }

 private:
  void AddOf(const Artifact& artifact) {
    for (const TensorFile& file : artifact.files)
      for (const StoredTensor& tensor : file.tensors)
        if (const CheckedStorage* storage = tensor.storage->checked())
          if (seen_.insert(storage).second) records_.push_back({&tensor, storage});
  }

  std::set<const CheckedStorage*> seen_;
  std::vector<Record> records_;
};

bool IsToBeProved(const CheckedStorage& storage, Proving proving) {
  if (storage.is_proved()) return false;
  const uint64_t seen = storage.seen_bytes();
  if (proving == Proving::kMost) return seen >= storage.bytes() - storage.bytes() / 2;
  return proving == Proving::kAll || seen > 0;
}

}  // namespace

Result<Proof> Prove(const BoundArtifact& artifact, Proving proving, const RunOptions& run) {
  Records records;
  records.AddOf(artifact);
  std::vector<Record> open;
  uint64_t bytes = 0;
  for (const Record& record : records.all()) {
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
  for (const Record& record : records.all()) {
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
      fmt::format("{} records were read in part, so that their checksums prove nothing; the "
                  "first is {} (--verify reads them whole)",
                  proof.partly, proof.first)};
}

}  // namespace nxdkit::ops
