#include "formats/ops/digest/digest.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/artifact/canonical.h"
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
      leaves_[i].resize(LeafCount(static_cast<uint64_t>(WholeBox(outputs[i].shape).Volume()) *
                                  static_cast<uint64_t>(ElementBytes(outputs[i].dtype))));
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

}  // namespace

Result<ModelDigest> DigestModel(const BoundArtifact& artifact, const RunOptions& run) {
  NXDKIT_ASSIGN(const CanonicalPlan plan, PlanCanonical(artifact));
  NXDKIT_ASSIGN(const ExecuteOptions options, MakeAlignedOptions(run, kChunkBytes));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan.plan, artifact.bound, plan.layout, plan.outputs, options));
  if (run.begin) run.begin("hashing tensors", executor.workload().bytes);
  DigestSink sink(plan.outputs);
  NXDKIT_TRY(executor.Run(sink));
  std::vector<manifest::ParamDigest> params;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    params.push_back(
        {plan.outputs[i].name, plan.outputs[i].dtype, plan.outputs[i].shape, sink.Root(i)});
  return manifest::MakeModelDigest(std::move(params));
}

namespace {

Finding ParamFinding(const manifest::ParamDigest& param, const char* check, std::string message) {
  return Finding(check, std::move(message)).on(param.name).of(param.name);
}

Finding CompareParams(const manifest::ParamDigest& recorded, const manifest::ParamDigest& found) {
  const auto differ = [&](const char* check, std::string now, std::string expected) {
    return ParamFinding(recorded, check,
                        fmt::format("{} {} found, {} recorded", check, now, expected))
        .differs(now, expected);
  };
  if (recorded.shape != found.shape)
    return differ("shape", ShapeText(found.shape), ShapeText(recorded.shape));
  if (recorded.dtype != found.dtype)
    return differ("dtype", std::string(Name(found.dtype)), std::string(Name(recorded.dtype)));
  return ParamFinding(recorded, "digest", "the values differ")
      .differs(manifest::DigestText(found.root), manifest::DigestText(recorded.root));
}

Finding CompareFile(const FileDigest& recorded, const FileDigest& found) {
  if (recorded.bytes != found.bytes)
    return Finding("bytes", fmt::format("{} bytes found, {} recorded", found.bytes, recorded.bytes))
        .in(recorded.path)
        .differs(std::to_string(found.bytes), std::to_string(recorded.bytes));
  return Finding("digest", "the contents differ")
      .in(recorded.path)
      .differs(manifest::DigestText(found.digest), manifest::DigestText(recorded.digest));
}

// Walks two lists that are sorted by `key` side by side.
template <typename Row, typename Key, typename Missing, typename Extra, typename Both>
void Walk(const std::vector<Row>& recorded, const std::vector<Row>& found, Key key,
          const Missing& missing, const Extra& extra, const Both& both) {
  auto a = recorded.begin();
  auto b = found.begin();
  while (a != recorded.end() || b != found.end()) {
    if (b == found.end() || (a != recorded.end() && (*a).*key < (*b).*key))
      missing(*a++);
    else if (a == recorded.end() || (*b).*key < (*a).*key)
      extra(*b++);
    else
      both(*a++, *b++);
  }
}

}  // namespace

std::vector<Finding> CompareModels(const ModelDigest& recorded, const ModelDigest& found) {
  std::vector<Finding> findings;
  using manifest::ParamDigest;
  Walk(
      recorded.params, found.params, &ParamDigest::name,
      [&](const ParamDigest& param) {
        findings.push_back(ParamFinding(param, "missing", "recorded, but not in the model"));
      },
      [&](const ParamDigest& param) {
        findings.push_back(ParamFinding(param, "extra", "in the model, but not recorded"));
      },
      [&](const ParamDigest& a, const ParamDigest& b) {
        if (!(a == b)) findings.push_back(CompareParams(a, b));
      });
  return findings;
}

std::vector<Finding> CompareFiles(const std::vector<FileDigest>& recorded,
                                  const std::vector<FileDigest>& found) {
  std::vector<Finding> findings;
  Walk(
      recorded, found, &FileDigest::path,
      [&](const FileDigest& file) {
        findings.push_back(Finding("missing", "the file is recorded, but not here").in(file.path));
      },
      [&](const FileDigest& file) {
        findings.push_back(Finding("extra", "the file is here, but not recorded").in(file.path));
      },
      [&](const FileDigest& a, const FileDigest& b) {
        if (a.bytes != b.bytes || a.digest != b.digest) findings.push_back(CompareFile(a, b));
      });
  return findings;
}

}  // namespace nxdkit::ops
