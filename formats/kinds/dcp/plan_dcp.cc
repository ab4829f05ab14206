#include "formats/kinds/dcp/plan_dcp.h"

#include <utility>

#include "formats/dcp/metadata_writer.h"
#include "formats/kinds/dcp/plan_transformers.h"
#include "formats/kinds/dcp/read_dcp.h"
#include "formats/training/adam_options.h"
#include "formats/training/run_progress.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

struct DcpChunk {
  size_t entry = 0;  // index into DcpContents::tensors
  Box box;
  TensorLayout layout;
};
struct DcpRank {
  std::vector<DcpChunk> chunks;
};

std::string Below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : JoinPath(folder, name);
}

// The least memory that `.metadata` takes while it is made: known before any of it exists.
Result<uint64_t> LeastDcpBytes(const BoundArtifact& source, const DcpOutput& output) {
  constexpr uint64_t kEntryBytes = 1500;  // key, place, plan and pickle; measured: 1700
  NXDKIT_ASSIGN(const auto weights, WeightTensors(source, output.style));
  uint64_t entries = weights.size();
  if (DcpFolderOf(source.artifact))
    entries = DcpFolderOf(source.artifact)->tensors.size() + source.run_objects.size();
  else if (source.optimizer)
    entries *= 4 + AdamOptions().size();  // moments and step next to the weight
  return entries * kEntryBytes;
}

// The parts that the ranks of the mesh write.
std::vector<DcpRank> CutDcp(const DcpContents& contents, const dcp::Mesh& mesh) {
  std::vector<DcpRank> ranks(static_cast<size_t>(mesh.ranks()));
  for (size_t t = 0; t < contents.tensors.size(); ++t)
    for (dcp::RankBox& part : dcp::CutOver(contents.tensors[t], mesh)) {
      TensorLayout layout = dcp::CutChunk(contents.tensors[t], part.box);
      ranks[static_cast<size_t>(part.rank)].chunks.push_back(
          {t, std::move(part.box), std::move(layout)});
    }
  return ranks;
}

// Every rank has a chunk of the tensor. Its pieces are rows, of which each rank has others; ranks
// that cut the columns have a part of all.
uint64_t LeastChunkBytes(const dcp::GlobalTensor& tensor, const dcp::Mesh& mesh) {
  const TensorLayout none{tensor.layout.name, 0, tensor.layout.shape, {}, {}, {}};
  const uint64_t bare = LeastPlanBytes(none);
  const uint64_t pieces = LeastPlanBytes(tensor.layout) - bare;
  const int columns = tensor.tp_dim > 0 ? mesh.tp : 1;
  return bare * static_cast<uint64_t>(mesh.ranks()) + pieces * static_cast<uint64_t>(columns);
}

Status PlanDcpFile(OutputBuilder& builder, int rank, DcpRank& cut,
                   std::vector<dcp::ObjectArchive> objects, DcpContents& contents,
                   const std::string& below) {
  const std::string name = dcp::DataFileName(rank);
  const uint32_t file = builder.NewFile(Below(below, name), -1, -1);
  builder.plan.layout.files[file].writer = rank;
  std::vector<OutputTensor> outputs;
  for (DcpChunk& chunk : cut.chunks) {
    NXDKIT_ASSIGN(OutputTensor output, builder.Add(std::move(chunk.layout), file));
    contents.metadata.tensors[chunk.entry].dtype = output.dtype;
    output.shape = chunk.box.extent;  // the layout may have another shape for it
    outputs.push_back(std::move(output));
  }
  NXDKIT_ASSIGN(dcp::EncodedFile encoded,
                dcp::EncodeItems(std::move(objects), std::move(outputs)).in(name));
  for (size_t i = 0; i < encoded.objects.size(); ++i)
    contents.metadata.objects[i].place = {name, encoded.objects[i].offset,
                                          encoded.objects[i].bytes};
  for (size_t i = 0; i < encoded.tensors.size(); ++i)
    contents.metadata.tensors[cut.chunks[i].entry].chunks.push_back(
        {std::move(cut.chunks[i].box),
         {name, encoded.tensors[i].offset, encoded.tensors[i].bytes}});
  builder.plan.files[file].encoder = std::move(encoded.encoder);
  return OkStatus();
}

}  // namespace

Status CheckChunkBytes(const OutputBuilder& builder, const dcp::Mesh& mesh,
                       const std::vector<dcp::GlobalTensor>& tensors) {
  uint64_t bytes = 0;
  for (const dcp::GlobalTensor& tensor : tensors) bytes += LeastChunkBytes(tensor, mesh);
  return builder.CheckPlanBytes(bytes, mesh.ranks());
}

Status PlanDcpFolder(OutputBuilder& builder, DcpContents contents, const dcp::Mesh& mesh,
                     const std::string& below) {
  NXDKIT_TRY(CheckChunkBytes(builder, mesh, contents.tensors));
  std::vector<DcpRank> ranks = CutDcp(contents, mesh);
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::vector<dcp::ObjectArchive> objects;
    if (r == 0)
      for (DcpObject& object : contents.objects) objects.push_back(std::move(object.archive));
    if (ranks[r].chunks.empty() && objects.empty()) continue;
    NXDKIT_TRY(
        PlanDcpFile(builder, static_cast<int>(r), ranks[r], std::move(objects), contents, below));
  }
  NXDKIT_ASSIGN(std::string text, dcp::WriteMetadata(contents.metadata));
  builder.plan.texts.push_back({Below(below, dcp::kMetadataFile), std::move(text)});
  return OkStatus();
}

Status DcpOutput::Plan(OutputBuilder& builder) const {
  const BoundArtifact& source = builder.source();
  NXDKIT_ASSIGN(const uint64_t least, LeastDcpBytes(source, *this));
  const bool by_expert =
      source.model && source.model->config.experts > 0 && style == dcp::Style::kHf;
  NXDKIT_TRY(builder.CheckPlanBytes(
      least, mesh.ranks(),
      by_expert ? "--style hf-fused (transformers 5) and torchtitan have the experts of a layer "
                  "in one tensor; or raise --max-memory"
                : "raise --max-memory"));
  NXDKIT_ASSIGN(DcpContents contents, MakeDcpContents(source, *this));
  if (form == Form::kTransformers) return PlanTransformers(builder, *this, std::move(contents));
  if (source.optimizer)
    for (const char* name : {kUserContentFile, kSchedulerFile})
      NXDKIT_TRY(builder.CarryFile(source.artifact.folder, name, name));
  NXDKIT_TRY(builder.CarrySideFiles());
  return PlanDcpFolder(builder, std::move(contents), mesh, "");
}

}  // namespace nxdkit::kinds
