#include <fmt/core.h>

#include "formats/artifact/canonical.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/hf/read_hf.h"
#include "formats/kinds/open_file.h"
#include "formats/kinds/table.h"
#include "formats/kinds/torch/facts_torch.h"
#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "formats/zero/tag_files.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

Status OpenTorch(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const bool is_folder, artifact.look.IsFolder(artifact.path));
  if (is_folder)
    return Unsupported("a torch state dict is one file; this is a folder").in(artifact.path);
  if (zero::IsRankFile(BaseName(artifact.path)))
    return Unsupported("one file of several ranks of a DeepSpeed checkpoint")
        .in(artifact.path)
        .hint(fmt::format("name their folder: {}", ParentPath(artifact.path)));
  NXDKIT_ASSIGN(TensorFile file, OpenStateDict(artifact.path, &artifact.warnings));
  artifact.files.push_back(std::move(file));
  return LoadConfig(artifact, hints, {ParentPath(artifact.path)});
}

class TorchOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override {
    builder.plan.single_file = true;
    const uint32_t file = builder.NewFile("", -1, -1);
    NXDKIT_ASSIGN(std::vector<OutputTensor> outputs,
                  builder.AddAll(WholeTensors(builder.source()), file));
    return builder.SetEncoder(
        file, torch::EncodeStateDict(std::move(outputs), Stem(builder.output_name())));
  }
};

Result<std::unique_ptr<Output>> DecideTorch(const BoundArtifact&, const OutputOptions& options) {
  return std::unique_ptr<Output>(std::make_unique<TorchOutput>(options));
}

}  // namespace

constinit const Kind kTorch = {
    .name = "torch",
    .called = "a torch state dict",
    .precedence = 4,
    .is_file = torch::LooksLikeArchive,
    .open = OpenTorch,
    .bind = BindHf,
    .stores_once = true,
    .describe = DescribeTorch,
    .decide = DecideTorch,
    .keeps_carried = true,
};

}  // namespace nxdkit::kinds
