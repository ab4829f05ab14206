#include "formats/kinds/delta/read_delta.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "formats/artifact/canonical.h"
#include "formats/artifact/computed_tensor.h"
#include "formats/delta/delta.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/rollout_state.h"
#include "formats/manifest/manifest.h"
#include "lib/base/errors.h"
#include "lib/base/scratch_pool.h"

namespace nxdkit::kinds {
namespace {

constexpr uint64_t kStagingBytes = 1 << 20;

// Base and delta together, with the scratch memory that threads need to read them.
class Overlay {
 public:
  Overlay(std::shared_ptr<const BoundArtifact> base, CanonicalPlan plan,
          std::shared_ptr<const delta::Delta> delta, std::vector<size_t> rows)
      : base_(std::move(base)),
        plan_(std::move(plan)),
        reader_(base_->bound, plan_),
        delta_(std::move(delta)),
        rows_(std::move(rows)) {}
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  const std::string& path() const { return delta_->path(); }
  uint64_t bytes(size_t param) const { return row(param).bytes(); }
  const delta::Param& row(size_t param) const { return delta_->head().params[rows_[param]]; }

  Status Read(size_t param, uint64_t offset, std::span<std::byte> to) const {
    const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
    return Read(param, offset, to, *scratch);
  }

 private:
  struct Scratch {
    Gatherer gatherer{kStagingBytes};
    delta::BlockDecoder decoder;
    delta::Changes changes;
    size_t param = SIZE_MAX;  // the one whose block is in `changes`
    uint64_t block = 0;
  };

  Status Read(size_t param, uint64_t offset, std::span<std::byte> to, Scratch& scratch) const {
    NXDKIT_TRY(reader_.Read(param, offset, to, scratch.gatherer));
    const uint64_t end = offset + to.size();
    const Dtype dtype = row(param).dtype;
    const uint64_t width = static_cast<uint64_t>(ElementBytes(dtype));
    for (uint64_t at = offset; at < end;) {
      const uint64_t block = at / delta::kBlockBytes;
      const uint64_t stop = std::min(end, (block + 1) * delta::kBlockBytes);
      NXDKIT_TRY(Load(param, block, scratch));
      delta::Apply(scratch.changes, dtype, delta_->head().coding, at % delta::kBlockBytes / width,
                   to.subspan(at - offset, stop - at));
      at = stop;
    }
    return OkStatus();
  }

  // Neighbouring reads often fall into one block.
  Status Load(size_t param, uint64_t block, Scratch& scratch) const {
    if (scratch.param == param && scratch.block == block) return OkStatus();
    scratch.param = SIZE_MAX;
    NXDKIT_TRY(delta_->Read(rows_[param], block, scratch.decoder, scratch.changes));
    scratch.param = param;
    scratch.block = block;
    return OkStatus();
  }

  std::shared_ptr<const BoundArtifact> base_;
  CanonicalPlan plan_;
  CanonicalReader reader_;
  std::shared_ptr<const delta::Delta> delta_;
  std::vector<size_t> rows_;  // each parameter's row in the delta
  mutable ScratchPool<Scratch> scratch_;
};

template <typename... T>
Error WrongBase(const std::string& path, fmt::format_string<T...> text, T&&... args) {
  return Error(Errc::kFindings, fmt::format(text, std::forward<T>(args)...))
      .in(path)
      .hint("apply it to the version that it was made from");
}

// A bundle that was made by a delta records its digest: a wrong base is found before anything is
// written.
Status CheckRecord(const BoundArtifact& base, const delta::Delta& delta) {
  const rollout::Bundle* const bundle = BundleOf(base.artifact);
  if (!bundle || !bundle->version) return OkStatus();
  const rollout::WeightsVersion& version = *bundle->version;
  const delta::Head& head = delta.head();
  if (version.digest.empty() || version.digest == manifest::DigestText(head.base))
    return OkStatus();
  if (version.digest == manifest::DigestText(head.result))
    return WrongBase(base.artifact.path,
                     "version {} ({}) is already the delta's result: it was applied before",
                     version.serial, version.label);
  return WrongBase(base.artifact.path, "version {} ({}) has the digest {}, the delta is for {}",
                   version.serial, version.label, version.digest, manifest::DigestText(head.base));
}

// Each base parameter's row in the delta; both must have the same parameters.
Result<std::vector<size_t>> MatchParams(const BoundArtifact& base, const CanonicalPlan& plan,
                                        const delta::Delta& delta) {
  std::unordered_map<std::string_view, size_t> index;
  const std::vector<delta::Param>& params = delta.head().params;
  for (size_t i = 0; i < params.size(); ++i) index.emplace(params[i].name, i);
  std::vector<size_t> rows;
  for (const OutputTensor& output : plan.outputs) {
    const auto it = index.find(output.name);
    if (it == index.end())
      return WrongBase(base.artifact.path, "the delta does not know this parameter")
          .on(output.name);
    const delta::Param& row = params[it->second];
    if (row.dtype != output.dtype || row.shape != output.shape)
      return WrongBase(base.artifact.path, "{} {} here, the delta is for {} {}", Name(output.dtype),
                       ShapeText(output.shape), Name(row.dtype), ShapeText(row.shape))
          .on(output.name);
    rows.push_back(it->second);
  }
  if (rows.size() == params.size()) return rows;
  return WrongBase(base.artifact.path, "{} parameters here, the delta is for {}", rows.size(),
                   params.size());
}

// The digests of a delta are related to each other, as those of a manifest are.
Status CheckHead(const delta::Delta& delta) {
  std::vector<manifest::ParamDigest> base, result;
  for (const delta::Param& param : delta.head().params) {
    base.push_back({param.name, param.dtype, param.shape, param.base});
    result.push_back({param.name, param.dtype, param.shape, param.result});
  }
  if (manifest::MakeModelDigest(std::move(base)).digest == delta.head().base &&
      manifest::MakeModelDigest(std::move(result)).digest == delta.head().result)
    return OkStatus();
  return Corrupt("a model's digest does not follow from those of its parameters").in(delta.path());
}

}  // namespace

Status BindDelta(BoundArtifact& out, const InputHints& hints) {
  const DeltaState& state = *DeltaStateOf(out.artifact);
  const std::shared_ptr<const delta::Delta>& delta = state.delta;
  NXDKIT_TRY(CheckHead(*delta));
  NXDKIT_ASSIGN(BoundArtifact base, Bind(state.base, hints));
  NXDKIT_TRY(CheckRecord(base, *delta));
  out.base = std::make_shared<const BoundArtifact>(std::move(base));
  out.model = out.base->model;
  out.params = out.base->params;
  out.left_out = out.base->left_out;
  NXDKIT_ASSIGN(CanonicalPlan plan, PlanCanonical(*out.base));
  NXDKIT_ASSIGN(std::vector<size_t> rows, MatchParams(*out.base, plan, *delta));
  out.bound.layout.tensors = plan.layout.tensors;
  const std::vector<OutputTensor> outputs = plan.outputs;
  const auto overlay =
      std::make_shared<const Overlay>(out.base, std::move(plan), delta, std::move(rows));
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.bound.layout.tensors[i].file = static_cast<uint32_t>(out.artifact.files.size() - 1);
    out.bound.stored.push_back(ComputedTensor(overlay, i, outputs[i]));
  }
  return OkStatus();
}

}  // namespace nxdkit::kinds
