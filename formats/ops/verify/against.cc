#include "formats/ops/verify/against.h"
#include "formats/kinds/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/exchange.h"
#include "formats/ops/verify/structure.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {
namespace {

using artifact::RowExchange;
using models::Role;

// The pairs of different types of the same parameters, "F32 to BF16"; "" if there are none.
std::string TypesText(const BoundArtifact& from, const BoundArtifact& to) {
  std::map<std::string, Dtype> dtypes;
  for (size_t t = 0; t < from.bound.stored.size(); ++t)
    for (const Piece& piece : from.bound.layout.tensors[t].pieces)
      dtypes.emplace(from.params[piece.param].name, from.bound.stored[t].dtype);
  std::set<std::string> pairs;
  for (size_t t = 0; t < to.bound.stored.size(); ++t)
    for (const Piece& piece : to.bound.layout.tensors[t].pieces) {
      const auto it = dtypes.find(to.params[piece.param].name);
      const Dtype dtype = to.bound.stored[t].dtype;
      if (it != dtypes.end() && it->second != dtype)
        pairs.insert(fmt::format("{} to {}", Name(it->second), Name(dtype)));
    }
  return fmt::format("{}", fmt::join(pairs, " and "));
}

std::optional<size_t> TensorOf(const Layout& layout, const Finding& finding) {
  for (size_t t = 0; t < layout.tensors.size(); ++t)
    if (layout.tensors[t].name == finding.tensor &&
        layout.files[layout.tensors[t].file].path == finding.file)
      return t;
  return std::nullopt;
}

// Whether most elements differ, as after rounding, or a large share of each tensor in which some
// do: norms kept in float32, modules with an adapter merged into them. If few do, the wide artifact
// was made from the other's values, and those few are damage that rounding would hide.
bool LooksRounded(const BoundArtifact& artifact, const std::vector<Finding>& findings) {
  const std::vector<StoredTensor>& tensors = artifact.bound.stored;
  int64_t all = 0;
  for (const StoredTensor& stored : tensors) all += ElementCount(stored.shape).value_or(0);
  int64_t differing = 0;
  bool everywhere = true;
  for (const Finding& finding : findings) {
    differing += finding.count;
    const std::optional<size_t> tensor = TensorOf(artifact.bound.layout, finding);
    // A value projection is at least a tenth of a fused tensor.
    everywhere &= tensor && finding.count > ElementCount(tensors[*tensor].shape).value_or(0) / 16;
  }
  return everywhere || differing > all / 2;
}

// --- heads in the place of others

// The number of rows or columns compared: a strip of a head is enough to tell heads apart.
constexpr int64_t kStrip = 64;

// The first elements of head `head` of a parameter, [strip rows or columns], as the layout stores
// them, in tensor `only` if given; empty if they are not in one piece.
Result<std::vector<std::byte>> ReadStrip(const BoundLayout& bound, std::optional<size_t> only,
                                         const LogicalTensor& param, uint32_t index, int64_t head,
                                         Dtype dtype) {
  const int dim = param.head_dim;
  Box strip = WholeBox(param.shape);
  strip.lo[dim] = head * param.head_rows;
  strip.extent[dim] = 1;
  if (param.shape.size() == 2) strip.extent[1 - dim] = std::min(strip.extent[1 - dim], kStrip);
  std::vector<std::byte> bytes(strip.Volume() * ElementBytes(dtype));
  for (size_t t = only.value_or(0); t < (only ? *only + 1 : bound.stored.size()); ++t)
    for (const Piece& piece : bound.layout.tensors[t].pieces) {
      if (piece.param != index || Intersect(piece.logical, strip) != strip) continue;
      const StoredTensor& stored = bound.stored[t];
      Move move{
          &stored,
          0,
          {strip.extent, {}, RowMajorStrides(strip.extent), stored.dtype, dtype, stored.big_endian},
          bytes.data()};
      for (size_t d = 0; d < strip.lo.size(); ++d) {
        const int64_t stride = stored.strides[piece.axes[d]];
        move.copy.source_strides.push_back(stride);
        move.start += (piece.stored_lo[piece.axes[d]] + strip.lo[d] - piece.logical.lo[d]) * stride;
      }
      NXDKIT_TRY(Gatherer(256 << 10).Run({move}));
      return bytes;
    }
  return std::vector<std::byte>();
}

// Adds to the finding the head that is really there, and the cause, if the pattern is known.
Status ExplainHead(const BoundArtifact& expected, const BoundArtifact& actual, Finding& finding) {
  const auto index = expected.model->Find(finding.param);
  const std::optional<size_t> tensor = TensorOf(actual.bound.layout, finding);
  if (!index || !tensor) return OkStatus();
  const LogicalTensor& param = expected.params[*index];
  const Role role = expected.model->params[*index].role;
  const Dtype dtype = actual.bound.stored[*tensor].dtype;
  NXDKIT_ASSIGN(const std::vector<std::byte> stored,
                ReadStrip(actual.bound, tensor, param, *index, *finding.head, dtype));
  if (stored.empty()) return OkStatus();
  const int64_t heads = param.shape[param.head_dim] / param.head_rows;
  for (int64_t head = 0; head < heads; ++head) {
    NXDKIT_ASSIGN(const std::vector<std::byte> strip,
                  ReadStrip(expected.bound, std::nullopt, param, *index, head, dtype));
    if (strip != stored) continue;
    if (head == *finding.head) return OkStatus();  // the right head, with wrong elements
    const char* what = role == Role::kKey ? "key" : role == Role::kValue ? "value" : "query";
    finding.explained = true;
    finding.message +=
        fmt::format("; {} head {} is where head {} belongs", what, head, *finding.head);
    const Kind& kind = *actual.artifact.kind;
    if ((role == Role::kQuery || role == Role::kOutput) && kind.misplaced_by)
      finding.message += kind.misplaced_by(actual, finding, head);
    return OkStatus();
  }
  return OkStatus();
}

Status ExplainHeads(const BoundArtifact& expected, const BoundArtifact& actual,
                    std::vector<Finding>& findings) {
  if (!expected.model || !actual.model) return OkStatus();
  const auto first = std::ranges::find_if(
      findings, [](const Finding& finding) { return finding.head.has_value(); });
  return first == findings.end() ? OkStatus() : ExplainHead(expected, actual, *first);
}

// Adds to the findings the exchange of rows that explains them.
Status NameExchange(const BoundArtifact& expected, const BoundArtifact& actual,
                    VerifyReport& report) {
  NXDKIT_ASSIGN(const auto search, ExchangeSearch::Make(expected, actual));
  if (!search || report.findings.empty()) return OkStatus();
  NXDKIT_ASSIGN(const auto exchange, search->Find());
  if (!exchange) return OkStatus();
  size_t count = 0;
  for (Finding& finding : report.findings) {
    NXDKIT_ASSIGN(const bool explains, search->Explains(*exchange, finding.param));
    if (!explains) continue;
    finding.explained = true;
    finding.message += "; the rows lie as exchanged by " + exchange->Text();
    ++count;
  }
  const RowExchange back{exchange->tp, exchange->fsdp};
  report.warnings.push_back(fmt::format(
      "rows of {} of {} tensors lie as exchanged by {}, which torch before 2.10 does in silence: "
      "--exchanged fsdp={},tp={} reads them in their places; or it is the other one whose rows are "
      "exchanged, by {}: --against-exchanged fsdp={},tp={}",
      count, report.findings.size(), exchange->Text(), exchange->fsdp, exchange->tp, back.Text(),
      back.fsdp, back.tp));
  return OkStatus();
}

// The parameters that differ, of `artifact` whose findings these are. A finding names the first one
// of its tensor: another one that is fused with it differs for certain where more elements do than
// the rest of the tensor has.
artifact::DifferingParams DifferingIn(const BoundArtifact& artifact,
                                      const std::vector<Finding>& findings, uint64_t all) {
  std::map<std::pair<std::string_view, std::string_view>, size_t> tensors;
  const Layout& layout = artifact.bound.layout;
  for (size_t t = 0; t < layout.tensors.size(); ++t)
    tensors[{layout.files[layout.tensors[t].file].path, layout.tensors[t].name}] = t;
  std::set<std::string_view> certain, possible;
  for (const Finding& finding : findings) {
    if (!finding.param.empty()) certain.insert(finding.param);
    const auto tensor = tensors.find({finding.file, finding.tensor});
    if (tensor == tensors.end()) continue;
    std::map<uint32_t, int64_t> elements;
    for (const Piece& piece : layout.tensors[tensor->second].pieces)
      elements[piece.param] += static_cast<int64_t>(piece.logical.Volume());
    const int64_t stored =
        ElementCount(artifact.bound.stored[tensor->second].shape).value_or(INT64_MAX);
    for (const auto& [param, count] : elements)
      if (finding.count > stored - count)
        certain.insert(artifact.params[param].name);
      else if (finding.count > 1)
        possible.insert(artifact.params[param].name);
  }
  const bool more =
      std::ranges::any_of(possible, [&](std::string_view name) { return !certain.contains(name); });
  return {all, certain.size(), more};
}

Status Explain(const BoundArtifact& expected, const BoundArtifact& actual, VerifyReport& report) {
  NXDKIT_TRY(NameExchange(expected, actual, report));
  return ExplainHeads(expected, actual, report.findings);
}

}  // namespace

Status VerifyAgainst(const VerifyRequest& request, const BoundArtifact& artifact,
                     const CompareSink::Seen& seen, VerifyReport& report) {
  const std::string& path = *request.against;
  NXDKIT_ASSIGN(const BoundArtifact other,
                OpenAndBind(path, request.against_kind, request.against_hints));
  report.AddSaid(other.artifact);
  Result<std::vector<Finding>> first = CompareArtifacts(other, artifact, request.run, seen);
  if (!first.ok()) {
    if (first.error().code() != Errc::kFindings) return std::move(first).error();
    report.findings.push_back(LayoutFinding(first.error()));
    return OkStatus();
  }
  const std::string types = TypesText(other, artifact);
  if (first->empty()) {
    report.checks.push_back(fmt::format("every element equals {}{}{}", path,
                                        types.empty() ? "" : ", converted from ", types));
    return OkStatus();
  }
  report.findings = *std::move(first);
  report.differing = DifferingIn(artifact, report.findings, other.params.size());
  if (types.empty()) return Explain(other, artifact, report);

  const std::string back_types = TypesText(artifact, other);
  NXDKIT_ASSIGN(std::vector<Finding> back, CompareArtifacts(artifact, other, request.run));
  if (back.empty() && LooksRounded(artifact, report.findings)) {
    report.findings.clear();
    report.differing = {};
    report.checks.push_back(
        fmt::format("every element of {} equals the one here, rounded from {}", path, back_types));
    return OkStatus();
  }
  const bool is_source = !back.empty() && back.size() < report.findings.size();
  report.warnings.push_back(fmt::format(
      "the element types differ: compared after {} was {} from {}", is_source ? request.path : path,
      back.empty() ? "converted" : "rounded", is_source ? back_types : types));
  if (!is_source) return Explain(other, artifact, report);
  report.findings = std::move(back);
  report.differing = DifferingIn(other, report.findings, other.params.size());
  return ExplainHeads(artifact, other, report.findings);
}

}  // namespace nxdkit::ops
