// A file of DeepSpeed's engine: a torch archive with anything that a script has put into it. The
// result is consistent, or refused.
#include "formats/torch/archive.h"
#include "formats/zero/partition.h"
#include "formats/zero/read_files.h"
#include "tests/formats/memory_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  static testing_util::MemoryFile file;
  file.Set(TextOf(data, size));
  const Result<torch::Archive> archive =
      torch::ReadArchive(file.path(), {.allowed = torch::ReadOptions::Allowed::kAny});
  if (!archive.ok()) {
    Require(archive.error().code() != Errc::kInternal, "no bug of ours");
    return 0;
  }
  const Result<zero::ModelFile> model = zero::ReadModelFile(*archive);
  Require(model.ok() || model.error().code() != Errc::kInternal, "no bug of ours");
  const Result<zero::OptimizerFile> optimizer = zero::ReadOptimizerFile(*archive);
  Require(optimizer.ok() || optimizer.error().code() != Errc::kInternal, "no bug of ours");
  if (!optimizer.ok()) return 0;
  // Each flat group as one parameter, unless the model's part of the file has groups.
  std::vector<std::vector<zero::NamedShape>> groups;
  for (const StoredTensor& flat : optimizer->masters) groups.push_back({{"all", flat.shape}});
  if (model.ok() && model->groups) groups = *model->groups;
  const Result<zero::Partition> partition = zero::PartitionOf(groups, {*optimizer});
  if (!partition.ok()) return 0;
  for (const zero::Place& place : partition->places)
    for (const zero::Range& range : place.ranges)
      Require(range.at + range.count <= optimizer->masters[place.group].shape[0],
              "a range inside of the flat group");
  return 0;
}
