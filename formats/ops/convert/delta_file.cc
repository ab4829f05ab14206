#include "formats/ops/convert/delta_file.h"

#include <utility>

#include "formats/artifact/canonical.h"
#include "formats/delta/writer.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/convert/standing.h"
#include "lib/base/scratch_pool.h"
#include "lib/hash/tree_digest.h"
#include "lib/sinks/match_sink.h"
#include "lib/system/file.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

static_assert(delta::kBlockBytes == kLeafBytes);

// With kStagingBytes, kDeltaBytesPerThread: the base's block, and the largest size of a block of
// single bytes in which all changed: positions, values and sections.
constexpr uint64_t kStagingBytes = 1 << 20;

// Takes blocks of the new model, and writes the elements that differ from the base.
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

  // Sets the digests of both models in `head`.
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

delta::Head MakeHead(const CanonicalPlan& plan, delta::Coding coding) {
  delta::Head head;
  head.coding = coding;
  for (const OutputTensor& output : plan.outputs)
    head.params.push_back({output.name, output.dtype, output.shape});
  return head;
}

Status RequireSameFile(const std::string& output, const std::string& made) {
  Status same = MatchCopy(output, made);
  if (same.ok() || same.error().code() != Errc::kFindings) return same;
  return InTheWay(output, same.error());
}

class DeltaFile : public Destination {
 public:
  DeltaFile(const ConvertRequest& request, Conversion& conversion)
      : Destination(request, conversion),
        base_(*conversion.base),
        reader_(base_.artifact.bound, base_.plan) {}

  Result<Sink*> Begin(const Workload&, ConvertReport&) override {
    NXDKIT_ASSIGN(stands_, FindsOutput(request_));
    NXDKIT_ASSIGN(staging_, Staging::Begin(request_.output, {.replace = request_.force || stands_,
                                                             .folder = false,
                                                             .sync = request_.sync && !stands_}));
    head_ = MakeHead(base_.plan, request_.coding);
    NXDKIT_ASSIGN(writer_, delta::Writer::Create(staging_.path(), head_));
    sink_.emplace(reader_, base_.plan.outputs, request_.coding, *writer_);
    return &*sink_;
  }

  Result<std::optional<MadePlace>> Finish(ConvertReport& report) override {
    sink_->Digest(head_);
    NXDKIT_ASSIGN(head_, writer_->Finish(std::move(head_), request_.sync));
    NXDKIT_ASSIGN(const File written, File::OpenRead(staging_.path()));
    report.output_bytes = written.bytes();
    report.output_files = 1;
    report.delta = ReportOf(head_);
    return std::optional(MadePlace{staging_.path(), ""});
  }

  Status Publish(ConvertReport& report) override {
    report.already_published = stands_;
    return stands_ ? RequireSameFile(request_.output, staging_.path()) : staging_.Publish();
  }

 private:
  const Conversion::Base& base_;
  const CanonicalReader reader_;
  bool stands_ = false;  // an existing output, compared once the delta is made
  Staging staging_;
  delta::Head head_;
  std::unique_ptr<delta::Writer> writer_;
  std::optional<DeltaSink> sink_;
};

}  // namespace

std::unique_ptr<Destination> MakeDeltaFile(const ConvertRequest& request, Conversion& conversion) {
  return std::make_unique<DeltaFile>(request, conversion);
}

}  // namespace nxdkit::ops
