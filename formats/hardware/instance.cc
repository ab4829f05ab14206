#include "formats/hardware/instance.h"

#include <fmt/format.h>

#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::hardware {
namespace {

constexpr int64_t kTrn1Tp[] = {1, 2, 8, 16, 32};
constexpr int64_t kTrn1SmallTp[] = {1, 2};
constexpr int64_t kTrn2SmallTp[] = {1, 2, 4};
constexpr int64_t kTrn2Tp[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int64_t kInf2SmallTp[] = {1, 2};
constexpr int64_t kInf2MiddleTp[] = {1, 2, 4, 8};
constexpr int64_t kInf2Tp[] = {1, 2, 4, 8, 24};
constexpr int64_t kTrn1SmallWorkers[] = {1, 2};
constexpr int64_t kTrn1Workers[] = {1, 2, 8, 32};
constexpr int64_t kTrn2SmallWorkers[] = {1, 4};
constexpr int64_t kTrn2Workers[] = {1, 4, 16, 64};

constexpr uint64_t kTrn1Bytes = uint64_t{32} << 30;  // per device; inf2's too
constexpr uint64_t kTrn2Bytes = uint64_t{96} << 30;

// Inf2 is for inference, so it has no workers.
const std::vector<Instance>& Table() {
  static const std::vector<Instance> kInstances = {
      {"inf2.xlarge", "trn1", 1, 2, kTrn1Bytes, kInf2SmallTp, {}},
      {"inf2.8xlarge", "trn1", 1, 2, kTrn1Bytes, kInf2SmallTp, {}},
      {"trn1.2xlarge", "trn1", 1, 2, kTrn1Bytes, kTrn1SmallTp, kTrn1SmallWorkers},
      {"trn2.3xlarge", "trn2", 1, 4, kTrn2Bytes, kTrn2SmallTp, kTrn2SmallWorkers},
      {"inf2.24xlarge", "trn1", 6, 12, kTrn1Bytes, kInf2MiddleTp, {}},
      {"inf2.48xlarge", "trn1", 12, 24, kTrn1Bytes, kInf2Tp, {}},
      {"trn1.32xlarge", "trn1", 16, 32, kTrn1Bytes, kTrn1Tp, kTrn1Workers},
      {"trn1n.32xlarge", "trn1", 16, 32, kTrn1Bytes, kTrn1Tp, kTrn1Workers},
      {"trn2.48xlarge", "trn2", 16, 64, kTrn2Bytes, kTrn2Tp, kTrn2Workers},
      {"trn2u.48xlarge", "trn2", 16, 64, kTrn2Bytes, kTrn2Tp, kTrn2Workers},
  };
  return kInstances;
}

}  // namespace

uint64_t Instance::bytes_per_core() const {
  const int64_t per_device = cores_per_device();
  return per_device > 0 ? device_bytes / static_cast<uint64_t>(per_device) : 0;
}

std::span<const Instance> Instances() { return Table(); }

Result<const Instance*> FindInstance(std::string_view name) {
  std::vector<std::string> names;
  for (const Instance& instance : Table()) {
    if (instance.name == name) return &instance;
    names.emplace_back(instance.name);
  }
  const std::optional<std::string> closest = ClosestWord(name, names);
  return BadUsage("{} is not an instance with Neuron devices that is known", name)
      .hint(closest ? fmt::format("did you mean {}?", *closest)
                    : fmt::format("known are {}", fmt::join(names, ", ")));
}

}  // namespace nxdkit::hardware
