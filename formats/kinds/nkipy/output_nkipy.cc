#include "formats/kinds/nkipy/output_nkipy.h"

#include <fmt/core.h>

#include "formats/kinds/builder.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/table.h"
#include "formats/nkipy/record.h"

namespace nxdkit::kinds {

Status NkipyOutput::Plan(OutputBuilder& builder) const {
  const models::Model& model = *builder.source().model;
  std::vector<nkipy::RecordedFile> files;
  for (int rank = 0; rank < geometry.tp; ++rank) {
    NXDKIT_ASSIGN(std::vector<TensorLayout> tensors, nkipy::RankTensors(model, geometry, rank));
    if (rank == 0) {
      uint64_t bytes = 0;
      for (const TensorLayout& tensor : tensors) bytes += LeastPlanBytes(tensor);
      NXDKIT_TRY(builder.CheckPlanBytes(bytes * static_cast<uint64_t>(geometry.tp), geometry.tp));
    }
    const std::string name = nkipy::ShardFileName(rank);
    NXDKIT_TRY(builder.AddSafetensors(name, rank, std::move(tensors), {}));
    files.push_back({name, builder.plan.files.back().encoder->file_bytes()});
  }
  NXDKIT_TRY(builder.CarrySideFiles());
  builder.plan.texts.push_back(
      {nkipy::kRecordName,
       nkipy::RecordText(geometry, *model.config.family, *dtype, files, source_digest)});
  return OkStatus();
}

Result<std::unique_ptr<Output>> DecideNkipy(const BoundArtifact& source,
                                            const OutputOptions& options) {
  NXDKIT_TRY(RequireModel(source));
  auto output = std::make_unique<NkipyOutput>(options);
  NXDKIT_ASSIGN(output->geometry.tp, DecideTp(source, kNkipy, options));
  if (const std::optional<std::string> said = options.Text("tok-embedding"))
    output->geometry.embedding = *nkipy::EmbeddingFromName(*said);
  if (!output->dtype) NXDKIT_TRY(CommonDtype(source, options.downcast).To(output->dtype.emplace()));
  if (*output->dtype != Dtype::kBF16)
    output->notes.push_back(fmt::format(
        "the files hold {}; the vendor's script writes BF16 by default", Name(*output->dtype)));
  output->notes.push_back(fmt::format(
      "the layout is derived from the vendor's script, not run with its engine; tok_embedding: {}",
      EmbeddingName(output->geometry.embedding)));
  return std::unique_ptr<Output>(std::move(output));
}

}  // namespace nxdkit::kinds
