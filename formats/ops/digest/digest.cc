#include "formats/ops/digest/digest.h"

#include <fmt/core.h>

#include "formats/artifact/canonical.h"
#include "formats/artifact/proof.h"
#include "lib/hash/tree_digest.h"

namespace nxdkit::ops {
namespace {

// Two leaves, which are hashed at once.
constexpr uint64_t kChunkBytes = 2 * kLeafBytes;

// Hashes chunks that are leaves. Threads write different elements.
class DigestSink : public Sink {
 public:
  explicit DigestSink(const std::vector<OutputTensor>& outputs) : leaves_(outputs.size()) {
    for (size_t i = 0; i < outputs.size(); ++i)
      leaves_[i].resize(LeafCount(*PackedBytes(outputs[i].dtype, outputs[i].shape)));
  }
  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    NXDKIT_CHECK(offset % kLeafBytes == 0);
    LeafDigests(bytes,
                std::span(leaves_[tensor]).subspan(offset / kLeafBytes, LeafCount(bytes.size())));
    return OkStatus();
  }
  Sha256Bytes Root(size_t tensor) const { return TreeRoot(leaves_[tensor]); }

 private:
  std::vector<std::vector<Sha256Bytes>> leaves_;
};

Finding ParamFinding(const manifest::ParamDigest& param, const char* check, std::string message) {
  return Finding(check, std::move(message)).on(param.name).of(param.name);
}

std::optional<Finding> CompareParams(const manifest::ParamDigest& recorded,
                                     const manifest::ParamDigest& found) {
  const auto differ = [&](const char* check, std::string now, std::string expected) {
    return ParamFinding(recorded, check,
                        fmt::format("{} {} found, {} recorded", check, now, expected))
        .differs(now, expected);
  };
  if (recorded == found) return std::nullopt;
  if (recorded.shape != found.shape)
    return differ("shape", ShapeText(found.shape), ShapeText(recorded.shape));
  if (recorded.dtype != found.dtype)
    return differ("dtype", std::string(Name(found.dtype)), std::string(Name(recorded.dtype)));
  return ParamFinding(recorded, "digest", "the values differ")
      .differs(manifest::DigestText(found.root), manifest::DigestText(recorded.root));
}

std::optional<Finding> CompareFile(const FileDigest& recorded, const FileDigest& found) {
  if (recorded.bytes != found.bytes)
    return Finding("bytes", fmt::format("{} bytes found, {} recorded", found.bytes, recorded.bytes))
        .in(recorded.path)
        .differs(std::to_string(found.bytes), std::to_string(recorded.bytes));
  if (recorded.digest == found.digest) return std::nullopt;
  return Finding("digest", "the contents differ")
      .in(recorded.path)
      .differs(manifest::DigestText(found.digest), manifest::DigestText(recorded.digest));
}

// Walks two lists sorted by `key` side by side.
template <typename Row, typename Key, typename One, typename Both>
std::vector<Finding> Walk(const std::vector<Row>& recorded, const std::vector<Row>& found, Key key,
                          const One& missing, const One& extra, const Both& both) {
  std::vector<Finding> findings;
  auto a = recorded.begin();
  auto b = found.begin();
  while (a != recorded.end() || b != found.end()) {
    if (b == found.end() || (a != recorded.end() && (*a).*key < (*b).*key))
      findings.push_back(missing(*a++));
    else if (a == recorded.end() || (*b).*key < (*a).*key)
      findings.push_back(extra(*b++));
    else if (std::optional<Finding> differs = both(*a++, *b++))
      findings.push_back(*std::move(differs));
  }
  return findings;
}

}  // namespace

Result<ModelDigest> DigestModel(const BoundArtifact& artifact, const RunOptions& run) {
  NXDKIT_ASSIGN(const CanonicalPlan plan, PlanCanonical(artifact));
  NXDKIT_ASSIGN(const ExecuteOptions options, MakeAlignedOptions(run, kChunkBytes));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan.plan, artifact.bound, plan.layout, plan.outputs, options));
  if (run.begin) run.begin("hashing tensors", executor.workload().bytes);
  DigestSink sink(plan.outputs);
  NXDKIT_TRY(executor.Run(sink));
  NXDKIT_TRY(Prove(artifact, Proving::kTouched, run));
  std::vector<manifest::ParamDigest> params;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    params.push_back(
        {plan.outputs[i].name, plan.outputs[i].dtype, plan.outputs[i].shape, sink.Root(i)});
  return manifest::MakeModelDigest(std::move(params));
}

std::vector<Finding> CompareModels(const ModelDigest& recorded, const ModelDigest& found) {
  using manifest::ParamDigest;
  const auto alone = [](const char* check, const char* message) {
    return [=](const ParamDigest& param) { return ParamFinding(param, check, message); };
  };
  return Walk(recorded.params, found.params, &ParamDigest::name,
              alone("missing", "recorded, but not in the model"),
              alone("extra", "in the model, but not recorded"), CompareParams);
}

std::vector<Finding> CompareFiles(const std::vector<FileDigest>& recorded,
                                  const std::vector<FileDigest>& found) {
  const auto alone = [](const char* check, const char* message) {
    return [=](const FileDigest& file) { return Finding(check, message).in(file.path); };
  };
  return Walk(recorded, found, &FileDigest::path,
              alone("missing", "the file is recorded, but not here"),
              alone("extra", "the file is here, but not recorded"), CompareFile);
}

}  // namespace nxdkit::ops
