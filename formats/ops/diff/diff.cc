#include "formats/ops/diff/diff.h"
#include "formats/kinds/open.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "formats/artifact/canonical.h"
#include "formats/artifact/proof.h"
#include "formats/ops/verify/compare.h"
#include "formats/ops/verify/exchange.h"
#include "formats/training/adam_options.h"
#include "formats/training/keep_params.h"
#include "formats/training/named_state.h"
#include "lib/base/errors.h"
#include "lib/base/scratch_pool.h"
#include "lib/sinks/compare_sink.h"

namespace nxdkit::ops {
namespace {

// The chunks of B. The size is fixed: sums, which are added chunk by chunk, then do not depend on
// threads and memory. Both sides of a chunk stay in the second-level cache.
constexpr uint64_t kChunkBytes = 512 << 10;
constexpr uint64_t kStagingBytes = 2 << 20;
// A may have wider elements than B: F64 cannot be compared with single bytes, but with BF16.
constexpr uint64_t kWidest = 4;

// A parameter that both have: its places in the two canonical plans.
struct Pair {
  uint32_t a = 0;
  uint32_t b = 0;
};

struct Sums {
  double abs = 0;
  double rel = 0;
  Squares squares;
};

// Takes chunks of B, loads the same elements of A, and compares them.
class DiffSink : public Sink {
 public:
  DiffSink(const CanonicalPlan& a, const BoundArtifact& a_artifact, const CanonicalPlan& b,
           std::vector<Pair> pairs, const DiffLimits& limits)
      : a_(a), a_reader_(a_artifact.bound, a), b_(b), pairs_(std::move(pairs)), limits_(limits) {
    diffs_.resize(pairs_.size());
    sums_.resize(pairs_.size());
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const OutputTensor& output = b_.outputs[pairs_[i].b];
      diffs_[i].name = output.name;
      diffs_[i].shape = output.shape;
      diffs_[i].a_dtype = a_.outputs[pairs_[i].a].dtype;
      diffs_[i].b_dtype = output.dtype;
      sums_[i].resize(*PackedBytes(output.dtype, output.shape) / kChunkBytes + 1);
    }
  }

  // `index` counts the pairs given to the executor.
  Status Take(uint32_t index, uint64_t offset, std::span<const std::byte> bytes) override {
    const ScratchPool<Scratch>::Lease scratch = scratch_.Take();
    const OutputTensor& a = a_.outputs[pairs_[index].a];
    const OutputTensor& b = b_.outputs[pairs_[index].b];
    const int64_t first = static_cast<int64_t>(offset) / ElementBytes(b.dtype);
    const int64_t count = static_cast<int64_t>(bytes.size()) / ElementBytes(b.dtype);
    const std::span<std::byte> a_bytes =
        scratch->bytes.AtLeast(static_cast<uint64_t>(count * ElementBytes(a.dtype)));
    NXDKIT_TRY(
        a_reader_.Read(pairs_[index].a, first * ElementBytes(a.dtype), a_bytes, scratch->gatherer));
    DiffTally tally = DiffElements(a.dtype, a_bytes.data(), b.dtype, bytes.data(), count, limits_);
    sums_[index][offset / kChunkBytes] = {
        tally.sum_abs, tally.sum_rel,
        SumSquares(a.dtype, a_bytes.data(), b.dtype, bytes.data(), count)};
    tally.sum_abs = tally.sum_rel = 0;
    const int64_t parts = count > 0 ? static_cast<int64_t>(tally.elements) / count : 1;
    const int64_t worst = tally.worst < 0 ? -1 : tally.worst / parts;  // for a complex number
    if (worst >= 0) tally.worst = first + worst;
    const std::lock_guard lock(mutex_);
    ParamDiff& diff = diffs_[index];
    diff.tally.Merge(tally);
    if (worst < 0 || diff.tally.worst != tally.worst) return OkStatus();
    diff.worst_a = ValueText(a.dtype, a_bytes.data() + worst * ElementBytes(a.dtype));
    diff.worst_b = ValueText(b.dtype, bytes.data() + worst * ElementBytes(b.dtype));
    diff.worst_index = PlaceOf(b_.layout.tensors[pairs_[index].b], tally.worst).stored;
    return OkStatus();
  }

  // Call after the run.
  std::vector<ParamDiff> Finish() {
    for (size_t i = 0; i < diffs_.size(); ++i)
      for (const Sums& sums : sums_[i]) {
        diffs_[i].tally.sum_abs += sums.abs;
        diffs_[i].tally.sum_rel += sums.rel;
        diffs_[i].squares.Add(sums.squares);
      }
    return std::move(diffs_);
  }

 private:
  struct Scratch {
    PageBuffer bytes;
    Gatherer gatherer{kStagingBytes};
  };

  const CanonicalPlan& a_;
  const CanonicalReader a_reader_;
  const CanonicalPlan& b_;
  const std::vector<Pair> pairs_;
  const DiffLimits limits_;
  std::mutex mutex_;
  ScratchPool<Scratch> scratch_;
  std::vector<ParamDiff> diffs_;
  std::vector<std::vector<Sums>> sums_;  // per chunk; threads write different ones
};

// The parameters that can be compared, by name; the others become findings.
std::vector<Pair> PairUp(const CanonicalPlan& a, const CanonicalPlan& b, DiffReport& report) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::map<std::string, Pair> by_name;
  for (uint32_t i = 0; i < a.outputs.size(); ++i) by_name[a.outputs[i].name] = {i, kNone};
  for (uint32_t i = 0; i < b.outputs.size(); ++i)
    by_name.try_emplace(b.outputs[i].name, Pair{kNone, kNone}).first->second.b = i;
  std::vector<Pair> pairs;
  for (const auto& [name, pair] : by_name) {
    const auto wrong = [&, &name = name](const char* check, std::string message) {
      report.findings.push_back(Finding(check, std::move(message)).on(name).of(name));
    };
    if (pair.b == kNone)
      wrong("only in a", "the parameter is only in A");
    else if (pair.a == kNone)
      wrong("only in b", "the parameter is only in B");
    else if (const OutputTensor& x = a.outputs[pair.a], &y = b.outputs[pair.b]; x.shape != y.shape)
      wrong("shape", fmt::format("shape {} in A, {} in B", ShapeText(x.shape), ShapeText(y.shape)));
    else if (!Comparable(x.dtype, y.dtype))
      wrong("dtype", fmt::format("dtype {} in A, {} in B: these cannot be compared", Name(x.dtype),
                                 Name(y.dtype)));
    else
      pairs.push_back(pair);
  }
  return pairs;
}

bool IsWorse(const ParamDiff& a, const ParamDiff& b) {
  const auto key = [](const ParamDiff& diff) {
    return std::tuple(diff.tally.worst_error, diff.tally.changed);
  };
  if (key(a) != key(b)) return key(a) > key(b);
  return a.name < b.name;
}

// B's plan, reduced to the pairs.
CanonicalPlan Choose(const CanonicalPlan& b, const std::vector<Pair>& pairs) {
  CanonicalPlan out;
  out.layout.files = b.layout.files;
  for (const Pair& pair : pairs) {
    out.plan.tensors.push_back(b.plan.tensors[pair.b]);
    out.layout.tensors.push_back(b.layout.tensors[pair.b]);
    out.outputs.push_back(b.outputs[pair.b]);
  }
  return out;
}

// The options of every parameter that has state, by name.
using NamedOptions = std::map<std::string, torch::PickleDict>;

NamedOptions OptionsOf(const BoundArtifact& bound) {
  NamedOptions named;
  const BoundOptimizer& optimizer = *bound.optimizer;
  for (size_t i = 0; i < optimizer.entries.size(); ++i)
    if (optimizer.entries[i] && optimizer.group_of[i] < optimizer.groups.size())
      named[bound.params[i].name] = optimizer.groups[optimizer.group_of[i]];
  return named;
}

// Each option that differs, with the values on both sides, once for all parameters that share them.
// A missing value counts as the one that a conversion would use; options that change no number, and
// those that torch's AdamW does not have, are ignored.
void CompareOptions(const NamedOptions& a, const NamedOptions& b, DiffReport& report) {
  std::map<std::string, std::vector<std::string>> differences;  // the parameters for each
  for (const auto& [name, left] : a) {
    const auto right = b.find(name);
    if (right == b.end()) continue;
    for (const AdamOption& option : AdamOptions()) {
      if (!option.counts) continue;
      if (!SaidIn(left, option.name) && !SaidIn(right->second, option.name)) continue;
      const torch::PickleValue x = OptionOf(left, option);
      const torch::PickleValue y = OptionOf(right->second, option);
      const Result<bool> same = SameOption(x, y);
      if (same.ok() && *same) continue;
      differences[fmt::format("{} is {} in A, {} in B", option.name, OptionText(x), OptionText(y))]
          .push_back(name);
    }
  }
  for (const auto& [message, params] : differences)
    report.findings.push_back(
        Finding("option", params.size() == 1 ? message
                                             : fmt::format("{}, and so for {} other parameters",
                                                           message, params.size() - 1))
            .on(params.front())
            .of(params.front()));
}

// Converts any format's state to that of a distributed checkpoint.
Status TakeState(BoundArtifact& bound, std::vector<std::string>& notes) {
  if (!bound.optimizer)
    return NotFound("there is no optimizer's state to compare").in(bound.artifact.path);
  LeaveRun(bound);
  return ToComparedState(bound, notes);
}

// A version of the model.
struct Version {
  std::string path;
  BoundArtifact bound;
  NamedOptions options;
  std::vector<std::string> notes;
};

Result<Version> Open(const DiffSide& side, bool optimizer, const RunOptions& run) {
  InputHints hints = side.hints;
  hints.optimizer = optimizer;
  NXDKIT_ASSIGN(BoundArtifact bound, OpenAndBind(side.path, side.kind, hints));
  Version version{side.path, std::move(bound), {}, {}};
  NXDKIT_TRY(RequireSound(version.bound, run));
  if (!optimizer) return version;
  if (version.bound.optimizer) version.options = OptionsOf(version.bound);
  NXDKIT_TRY(TakeState(version.bound, version.notes));
  return version;
}

// The state of training, whose names end in "/exp_avg" or the like, is not part of the weights.
void AddLayers(const std::vector<Pair>& pairs, bool optimizer, DiffReport& report) {
  std::vector<MovedParam> moved;
  for (size_t i = 0; i < pairs.size(); ++i) {
    ParamDiff& diff = report.params[i];
    diff.is_state = optimizer && diff.name.find('/') != diff.name.npos;
    if (diff.is_state) continue;
    const DiffTally& tally = diff.tally;
    moved.push_back({diff.name, pairs[i].b, tally.elements, tally.changed, diff.squares,
                     tally.nan + tally.infinite, tally.max_abs});
  }
  report.modules = ModulesOf(moved);
  report.layers = MovesOf(std::move(moved));
  for (const LayerMove& layer : report.layers) report.update.Add(layer);
}

Result<DiffReport> DiffModels(const BoundArtifact& a, const BoundArtifact& b,
                              const DiffRequest& request) {
  const RunOptions& run = request.run;
  NXDKIT_ASSIGN(const CanonicalPlan a_plan, PlanCanonical(a));
  NXDKIT_ASSIGN(const CanonicalPlan b_plan, PlanCanonical(b));
  DiffReport report;
  report.a_kind = a.artifact.kind;
  report.b_kind = b.artifact.kind;
  const std::vector<Pair> pairs = PairUp(a_plan, b_plan, report);
  const CanonicalPlan chosen = Choose(b_plan, pairs);
  NXDKIT_ASSIGN(const ExecuteOptions options,
                MakeAlignedOptions(run, kChunkBytes, kWidest * kChunkBytes + kStagingBytes));
  DiffSink sink(a_plan, a, b_plan, pairs, request.limits);
  NXDKIT_TRY(RunPlan(chosen, b.bound, options, run, "comparing", sink));
  for (const BoundArtifact* side : {&a, &b}) NXDKIT_TRY(Prove(*side, Proving::kTouched, run));
  report.params = sink.Finish();
  for (const ParamDiff& diff : report.params) report.total.Merge(diff.tally);
  report.total.worst = -1;
  AddLayers(pairs, request.optimizer, report);
  std::ranges::sort(report.params, IsWorse);
  return report;
}

// Whether the rows of one are those of the other in known wrong places.
Status NameExchange(const BoundArtifact& a, const BoundArtifact& b, DiffReport& report) {
  if (report.total.beyond == 0) return OkStatus();
  NXDKIT_ASSIGN(const auto exchange, FindExchange(b, a));
  if (!exchange) return OkStatus();
  const artifact::RowExchange back{exchange->tp, exchange->fsdp};
  report.warnings.push_back(fmt::format(
      "A's rows lie as those of B exchanged by {} (or B's as those of A by {}), which "
      "torch before 2.10 does in silence: --exchanged fsdp={},tp={} for A reads them in "
      "their places",
      exchange->Text(), back.Text(), exchange->fsdp, exchange->tp));
  return OkStatus();
}

// Without what was said on opening them.
Result<DiffReport> Compare(const Version& a, const Version& b, const DiffRequest& request) {
  NXDKIT_ASSIGN(DiffReport report, DiffModels(a.bound, b.bound, request));
  CompareOptions(a.options, b.options, report);
  NXDKIT_TRY(NameExchange(a.bound, b.bound, report));
  return report;
}

Result<DiffReport> CompareStep(const Version& a, const Version& b, const DiffRequest& request) {
  NXDKIT_ASSIGN(DiffReport report, Compare(a, b, request));
  report.params = {};
  for (std::string& warning : report.warnings)
    warning = fmt::format("from {} (A) to {} (B): {}", a.path, b.path, warning);
  return report;
}

// Each version is opened once; no more than three are open at a time.
class Comparer {
 public:
  explicit Comparer(const DiffRequest& request) : request_(request) {}

  Result<VersionsReport> Run(const std::vector<DiffSide>& sides) {
    NXDKIT_ASSIGN(const std::shared_ptr<Version> first, Next(sides.front()));
    std::shared_ptr<Version> last = first;
    for (const DiffSide& side : std::span(sides).subspan(1)) {
      NXDKIT_ASSIGN(std::shared_ptr<Version> next, Next(side));
      if (sides.size() > 2) {
        NXDKIT_ASSIGN(DiffReport step, CompareStep(*last, *next, request_));
        said_.AddSaid({std::move(step.warnings), {}});
        report_.steps.push_back(std::move(step));
      }
      last = std::move(next);
    }
    NXDKIT_ASSIGN(report_.whole, Compare(*first, *last, request_));
    report_.whole.AddSaid(said_);
    report_.whole.AddSaid({std::move(notes_), {}});
    return std::move(report_);
  }

 private:
  Result<std::shared_ptr<Version>> Next(const DiffSide& side) {
    NXDKIT_ASSIGN(Version version, Open(side, request_.optimizer, request_.run));
    said_.AddSaid(version.bound.artifact);
    std::ranges::move(version.notes, std::back_inserter(notes_));
    return std::make_shared<Version>(std::move(version));
  }

  const DiffRequest& request_;
  VersionsReport report_;
  Said said_;
  std::vector<std::string> notes_;
};

}  // namespace

bool VersionsReport::differs() const {
  return whole.differs() || std::ranges::any_of(steps, &DiffReport::differs);
}

Result<DiffReport> Diff(const DiffRequest& request) {
  NXDKIT_ASSIGN(VersionsReport report, Comparer(request).Run({request.a, request.b}));
  return std::move(report.whole);
}

Result<VersionsReport> DiffVersions(const DiffRequest& request) {
  std::vector<DiffSide> sides = {request.a, request.b};
  sides.insert(sides.end(), request.later.begin(), request.later.end());
  return Comparer(request).Run(sides);
}

}  // namespace nxdkit::ops
