// What changed from one model to another, whatever the layouts of both.
#include <fmt/core.h>

#include <utility>

#include "formats/artifact/canonical_reader.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/convert/convert_parts.h"
#include "formats/ops/convert/standing.h"
#include "formats/output/places.h"
#include "lib/base/scratch_pool.h"
#include "lib/hash/tree_digest.h"
#include "lib/sinks/match_sink.h"
#include "lib/system/file.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

static_assert(delta::kBlockBytes == kLeafBytes);

constexpr uint64_t kStagingBytes = 1 << 20;
// Of one thread: the base's block, its staging, and what a block of single bytes can grow to that
// all changed: positions, values and sections.
constexpr uint64_t kSinkBytes = kLeafBytes + kStagingBytes + 16 * kLeafBytes;

// Takes blocks of the new model, and writes what the base has otherwise.
class DeltaSink : public Sink {
 public:
  DeltaSink(const CanonicalReader& base, const std::vector<OutputTensor>& outputs,
            delta::Coding coding, delta::Writer& writer)
      : base_(base), outputs_(outputs), coding_(coding), writer_(writer) {
    for (const OutputTensor& output : outputs)
      leaves_.emplace_back(LeafCount(*PackedBytes(output.dtype, output.shape)));
  }

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override {
    const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
    const std::span<std::byte> before = scratch->base.span().first(bytes.size());
    NXDKIT_TRY(base_.Read(tensor, offset, before, scratch->gatherer));
    std::vector<std::byte> block;
    NXDKIT_ASSIGN(const uint64_t changed,
                  scratch->encoder.Encode(outputs_[tensor].dtype, coding_, before, bytes, block));
    Leaf& leaf = leaves_[tensor][offset / kLeafBytes];
    if (changed == 0) {
      leaf.base = leaf.result = LeafDigest(bytes);
    } else {
      const std::array<Sha256Bytes, 2> pair = LeafDigestPair(before, bytes);
      leaf = {pair[0], pair[1]};
    }
    return writer_.Put(tensor, offset / kLeafBytes, changed, std::move(block));
  }

  // The digests of both models, into `head`.
  void Digest(delta::Head& head) const {
    std::vector<manifest::ParamDigest> base, result;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      delta::Param& param = head.params[i];
      std::vector<Sha256Bytes> base_leaves, result_leaves;
      for (const Leaf& leaf : leaves_[i]) {
        base_leaves.push_back(leaf.base);
        result_leaves.push_back(leaf.result);
      }
      param.base = TreeRoot(base_leaves);
      param.result = TreeRoot(result_leaves);
      base.push_back({param.name, param.dtype, param.shape, param.base});
      result.push_back({param.name, param.dtype, param.shape, param.result});
    }
    head.base = manifest::MakeModelDigest(std::move(base)).digest;
    head.result = manifest::MakeModelDigest(std::move(result)).digest;
  }

 private:
  struct Leaf {
    Sha256Bytes base;
    Sha256Bytes result;
  };
  struct Scratch {
    PageBuffer base{kLeafBytes};
    Gatherer gatherer{kStagingBytes};
    delta::BlockEncoder encoder;
  };

  const CanonicalReader& base_;
  const std::vector<OutputTensor>& outputs_;
  const delta::Coding coding_;
  delta::Writer& writer_;
  std::vector<std::vector<Leaf>> leaves_;  // threads write different elements
  ScratchPool<Scratch> scratch_;
};

Status CheckRequest(const ConvertRequest& request) {
  if (request.hints.base.empty())
    return Error(Errc::kUsage, "a delta needs the model that it starts from")
        .hint("name it with --base");
  if (request.into || request.part)
    return Error(Errc::kUsage,
                 "a delta is written by one process to a file of its own: "
                 "--into and --part say nothing about it");
  return OkStatus();
}

// The base is opened as the input is when it is of the same kind, but for the tag.
InputHints BaseHints(const ConvertRequest& request, Kind kind) {
  InputHints hints;
  if (kind == request.from) hints = request.hints;
  hints.base.clear();
  hints.lora.clear();
  hints.tag.reset();
  hints.claims.origin = request.hints.claims.origin;
  hints.config = request.hints.config;
  return hints;
}

// Where each parameter of the new model lies, numbered as the base numbers them.
Result<BoundLayout> AsTheBase(const BoundArtifact& base, const BoundArtifact& input) {
  BoundLayout bound;
  NXDKIT_ASSIGN(bound.layout, Renumber(base, input));
  bound.stored = input.bound.stored;
  return bound;
}

delta::Head MakeHead(const CanonicalPlan& plan, delta::Coding coding) {
  delta::Head head;
  head.coding = coding;
  for (const OutputTensor& output : plan.outputs) {
    delta::Param param;
    param.name = output.name;
    param.dtype = output.dtype;
    param.shape = output.shape;
    head.params.push_back(std::move(param));
  }
  return head;
}

// The delta, read again and applied, against the new model.
Status VerifyDelta(const ConvertRequest& request, const std::string& path,
                   const BoundArtifact& input) {
  NXDKIT_ASSIGN(const Kind kind, Recognise(request.hints.base));
  InputHints hints = BaseHints(request, kind);
  hints.base = request.hints.base;
  NXDKIT_ASSIGN(const BoundArtifact made, OpenAndBind(path, Kind::kDelta, hints));
  NXDKIT_ASSIGN(const std::vector<Finding> findings, CompareArtifacts(input, made, request.run));
  if (findings.empty()) return OkStatus();
  return Error(Errc::kFindings, fmt::format("verification failed: {}", findings.front().message))
      .in(path)
      .on(findings.front().param)
      .hint("nothing was published");
}

Status RequireSameFile(const std::string& output, const std::string& made) {
  const Status same = MatchCopy(output, made);
  if (same.ok() || same.error().code() != Errc::kFindings) return same;
  return InTheWay(output, same.error());
}

}  // namespace

Result<ConvertReport> MakeDelta(const ConvertRequest& request) {
  NXDKIT_TRY(CheckRequest(request));
  NXDKIT_TRY(CheckPlaces(request.output, {request.input, request.hints.base}));
  NXDKIT_ASSIGN(const BoundArtifact input, OpenAndBind(request.input, request.from, request.hints));
  NXDKIT_ASSIGN(const Kind base_kind, Recognise(request.hints.base));
  NXDKIT_ASSIGN(const BoundArtifact base,
                OpenAndBind(request.hints.base, base_kind, BaseHints(request, base_kind)));
  NXDKIT_TRY(RequireSound(input, request.run));
  NXDKIT_TRY(RequireSound(base, request.run));
  NXDKIT_ASSIGN(const CanonicalPlan base_plan, PlanCanonical(base));
  NXDKIT_ASSIGN(const BoundLayout bound, AsTheBase(base, input));
  NXDKIT_ASSIGN(const Plan plan, BuildPlan(base.params, bound, base_plan.layout));
  NXDKIT_ASSIGN(const ExecuteOptions options,
                MakeAlignedOptions(request.run, kLeafBytes, kSinkBytes));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan, bound, base_plan.layout, base_plan.outputs, options));
  const bool stands = FindsOutput(request);  // it is compared, not replaced
  NXDKIT_ASSIGN(Staging staging, Staging::Begin(request.output, {.replace = request.force || stands,
                                                                 .folder = false,
                                                                 .sync = request.sync && !stands}));
  delta::Head head = MakeHead(base_plan, request.coding);
  NXDKIT_ASSIGN(const std::unique_ptr<delta::Writer> writer,
                delta::Writer::Create(staging.path(), head));
  const CanonicalReader reader(base.bound, base_plan);
  DeltaSink sink(reader, base_plan.outputs, request.coding, *writer);
  if (request.run.begin) request.run.begin("comparing", executor.workload().bytes);
  NXDKIT_TRY(executor.Run(sink));
  sink.Digest(head);
  NXDKIT_ASSIGN(head, writer->Finish(std::move(head), request.sync));

  ConvertReport report;
  if (input.artifact.config) report.model_type = input.artifact.config->model_type;
  for (const delta::Param& param : head.params) report.parameters += param.elements();
  report.source_bytes = input.artifact.file_bytes() + base.artifact.file_bytes();
  report.output_files = 1;
  report.output_tensors = head.params.size();
  report.tasks = executor.workload().tasks;
  report.buffer_bytes = executor.workload().buffer_bytes;
  report.warnings = input.artifact.warnings;
  report.delta = ReportOf(head);
  report.lora = LoraReportOf(input);
  NXDKIT_ASSIGN(const File written, File::OpenRead(staging.path()));
  report.output_bytes = written.bytes();
  if (request.verify) NXDKIT_TRY(VerifyDelta(request, staging.path(), input));
  report.verified = request.verify;
  report.already_published = stands;
  if (stands)
    NXDKIT_TRY(RequireSameFile(request.output, staging.path()));
  else
    NXDKIT_TRY(staging.Publish());
  return report;
}

}  // namespace nxdkit::ops
