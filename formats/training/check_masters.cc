#include "formats/training/check_masters.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "formats/training/check_adam.h"
#include "lib/base/errors.h"
#include "lib/plan/gather.h"

namespace nxdkit::training {
namespace {

constexpr int64_t kRun = 64;  // elements in a row
constexpr uint64_t kStaging = 64 << 10;

// A part of one row of the parameter, by `third`: from its first, middle or last row.
Box SampleBox(const Shape& shape, int third) {
  Box box = {Shape(shape.size(), 0), Shape(shape.size(), 1)};
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool inner = d + 1 == shape.size();
    box.extent[d] = inner ? std::min(kRun, shape[d]) : 1;
    box.lo[d] = (shape[d] - box.extent[d]) * third / 2;
  }
  return box;
}

TensorLayout SampleTensor(uint32_t param, const Box& box) {
  TensorLayout tensor;
  tensor.shape = box.extent;
  Piece piece{param, box, Shape(box.lo.size(), 0), {}};
  for (size_t d = 0; d < box.lo.size(); ++d) piece.axes.push_back(static_cast<uint8_t>(d));
  tensor.pieces.push_back(std::move(piece));
  return tensor;
}

// A number as its sign and the count of steps from zero to it.
std::pair<bool, uint64_t> StepsFromZero(Dtype dtype, double value) {
  std::array<std::byte, 8> bytes{};
  ConvertElements(Dtype::kF64, reinterpret_cast<const std::byte*>(&value), dtype, bytes.data(), 1);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), static_cast<size_t>(ElementBytes(dtype)));
  const uint64_t sign = uint64_t{1} << (8 * ElementBytes(dtype) - 1);
  return {(bits & sign) != 0, bits & (sign - 1)};
}

// The number of steps between `a` and `b` in the dtype, both rounded to it.
uint64_t Apart(Dtype dtype, double a, double b) {
  const auto [minus_a, from_a] = StepsFromZero(dtype, a);
  const auto [minus_b, from_b] = StepsFromZero(dtype, b);
  if (minus_a != minus_b) return from_a + from_b;
  return from_a > from_b ? from_a - from_b : from_b - from_a;
}

struct Sampler {
  struct Sample {
    uint32_t param;
    size_t weight, master;  // indices of the layout's tensors
  };

  const BoundArtifact& tag;
  Layout layout = {};
  Plan plan = {};
  std::vector<Sample> samples = {};  // three of each parameter
  Gatherer gatherer{kStaging};

  Result<MasterCheck> Run() {
    layout.files.push_back({});
    for (uint32_t i = 0; i < tag.model_params(); ++i) AddSamples(i);
    NXDKIT_ASSIGN(plan, BuildPlan(tag.params, tag.bound, layout));
    MasterCheck check;
    for (size_t first = 0; first < samples.size(); first += 3) NXDKIT_TRY(Judge(first, check));
    return check;
  }

  void AddSamples(uint32_t i) {
    const auto& master = tag.optimizer->masters[i];
    const Shape& shape = tag.params[i].shape;
    if (!master || shape.empty() || WholeBox(shape).Volume() == 0) return;
    for (int third = 0; third < 3; ++third) {
      const Box box = SampleBox(shape, third);
      samples.push_back({i, layout.tensors.size(), layout.tensors.size() + 1});
      layout.tensors.push_back(SampleTensor(i, box));
      layout.tensors.push_back(SampleTensor(master->param, box));
    }
  }

  Dtype StoredAs(size_t tensor) const {
    return tag.bound.stored[plan.tensors[tensor].copies.front().source].dtype;
  }

  Result<std::vector<double>> Read(size_t tensor) {
    const OutputTensor wide{"", Dtype::kF64, layout.tensors[tensor].shape};
    std::vector<double> values(static_cast<size_t>(WholeBox(wide.shape).Volume()));
    NXDKIT_TRY(gatherer.Read(plan.tensors[tensor], tag.bound, wide, 0,
                             std::as_writable_bytes(std::span(values))));
    return values;
  }

  // Judges the three samples of a parameter.
  Status Judge(size_t first, MasterCheck& check) {
    const uint32_t param = samples[first].param;
    if (!Info(StoredAs(samples[first].weight)).floating ||
        !Info(StoredAs(samples[first].master)).floating)
      return OkStatus();
    MasterCheck::Fault fault{param, 0, 0, 0, 0};
    bool rounded = false;
    for (size_t s = first; s < first + 3; ++s) NXDKIT_TRY(Look(samples[s], fault, rounded));
    ++check.params;
    check.rounded += rounded && fault.elements == 0;
    if (fault.elements > 0) check.faults.push_back(fault);
    return OkStatus();
  }

  Status Look(const Sample& sample, MasterCheck::Fault& fault, bool& rounded) {
    const Dtype dtype = StoredAs(sample.weight);
    NXDKIT_ASSIGN(const std::vector<double> weights, Read(sample.weight));
    NXDKIT_ASSIGN(std::vector<double> masters, Read(sample.master));
    // A checkpoint has them in F32, and torch rounds F64 in the same way: to F32, and then further.
    for (double& master : masters) master = static_cast<float>(master);
    for (size_t i = 0; i < weights.size(); ++i) {
      ++fault.looked_at;
      const uint64_t apart = Apart(dtype, weights[i], masters[i]);
      rounded |= apart == 1;
      if (apart <= 1) continue;
      if (fault.elements++ > 0) continue;
      fault.weight = weights[i];
      fault.master = masters[i];
    }
    return OkStatus();
  }
};

}  // namespace

Result<MasterCheck> SampleMasters(const BoundArtifact& tag) { return Sampler{tag}.Run(); }

bool MasterCheck::mostly_others() const { return 2 * faults.size() > params; }

Status ProveState(BoundArtifact& checkpoint) {
  NXDKIT_TRY(CheckEven(checkpoint));
  NXDKIT_ASSIGN(const MasterCheck check, SampleMasters(checkpoint));
  if (check.params == 0) return OkStatus();
  if (!check.faults.empty())
    return Corrupt("{}", FaultText(check, checkpoint))
        .in(checkpoint.artifact.path)
        .on(checkpoint.params[check.faults.front().param].name)
        .hint("--no-optimizer converts only the weights");
  checkpoint.artifact.proofs.push_back(
      check.rounded == 0
          ? fmt::format(
                "the weights of {} parameters are their master weights rounded, by a sample",
                check.params)
          : fmt::format(
                "the weights of {} parameters are within a unit of their master weights, by "
                "a sample, and in {} not rounded to nearest even",
                check.params, check.rounded));
  return OkStatus();
}

std::string FaultText(const MasterCheck& check, const BoundArtifact& tag) {
  const MasterCheck::Fault& first = check.faults.front();
  return fmt::format(
      "the weights of {} of {} parameters are not their master weights rounded: of {}, {} of {} "
      "elements that were looked at, the first {} where the master weight is {}; either the "
      "weights were changed after the last step, or the optimizer's numbers belong to other "
      "parameters",
      check.faults.size(), check.params, tag.params[first.param].name, first.elements,
      first.looked_at, first.weight, first.master);
}

std::vector<std::string> TextOf(const MasterCheck& check, const BoundArtifact& tag) {
  std::vector<std::string> lines;
  if (!check.faults.empty()) lines.push_back(FaultText(check, tag));
  if (check.rounded > 0)
    lines.push_back(
        fmt::format("the weights of {} of {} parameters are their master weights rounded, but not "
                    "to nearest even, as they are rounded on the way back",
                    check.rounded, check.params));
  return lines;
}

}  // namespace nxdkit::training
