#include "formats/ops/verify/serve_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/errors.h"
#include "lib/base/parallel.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint8_t kSignless = 0x7f;
constexpr uint8_t kNanBits = 0x7f;  // of E4M3, without its sign
constexpr size_t kWordBytes = 8;

// Calls `take(offset, chunks)` with the bytes of tensors of one size, side by side.
template <size_t N, typename Take>
Status ReadTogether(const std::array<const StoredTensor*, N>& tensors, const RunOptions& run,
                    const Take& take) {
  NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensors[0]->dtype, tensors[0]->shape));
  std::array<std::vector<std::byte>, N> chunks;
  for (auto& chunk : chunks) chunk.resize(std::min(bytes, kChunkBytes));
  for (uint64_t at = 0; at < bytes; at += kChunkBytes) {
    if (run.poll) NXDKIT_TRY(run.poll());
    for (size_t i = 0; i < N; ++i) {
      chunks[i].resize(std::min(kChunkBytes, bytes - at));
      NXDKIT_TRY(
          tensors[i]->storage->ReadAt(tensors[i]->offset + at, chunks[i]).on(tensors[i]->name));
    }
    if (run.on_bytes) run.on_bytes(chunks[0].size() * N);
    if (!take(at, chunks)) return OkStatus();
  }
  return OkStatus();
}

// The codes of an FP8 tensor that are beyond a chip's largest number.
struct BeyondRange {
  uint64_t over = 0, nan = 0;
  int64_t first_nan = -1;  // element
};

// Whether none of eight numbers is beyond `most`: the addition carries into the sign bit of one
// that is.
bool AllWithin(const std::byte* numbers, uint8_t most) {
  constexpr uint64_t kEach = 0x0101010101010101;
  uint64_t word = 0;
  std::memcpy(&word, numbers, kWordBytes);
  return (((word & (kEach * kSignless)) + kEach * (kNanBits - most)) & (kEach * 0x80)) == 0;
}

Result<BeyondRange> FindBeyond(const StoredTensor& tensor, uint8_t most, const RunOptions& run) {
  BeyondRange found;
  const auto look_at = [&](uint64_t at, uint8_t bits) {
    const uint8_t size = bits & kSignless;
    if (size <= most) return;
    ++(size == kNanBits ? found.nan : found.over);
    if (size == kNanBits && found.first_nan < 0) found.first_nan = static_cast<int64_t>(at);
  };
  const auto look = [&](uint64_t at, const std::array<std::vector<std::byte>, 1>& chunks) {
    const std::vector<std::byte>& chunk = chunks[0];
    for (size_t i = 0; i < chunk.size(); i += kWordBytes) {
      const size_t count = std::min(kWordBytes, chunk.size() - i);
      if (count == kWordBytes && AllWithin(&chunk[i], most)) continue;
      for (size_t j = i; j < i + count; ++j) look_at(at + j, static_cast<uint8_t>(chunk[j]));
    }
    return true;
  };
  NXDKIT_TRY(ReadTogether<1>({&tensor}, run, look));
  return found;
}

Shape IndexOf(int64_t element, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = element % shape[d];
    element /= shape[d];
  }
  return index;
}

class ServedValues {
 public:
  ServedValues(const ServedFolder& folder, const models::Model& model, const ServedScheme& scheme,
               const ServeRequest& request, ServeReport& report)
      : folder_(folder), model_(model), scheme_(scheme), request_(request), report_(report) {}

  Status Run() {
    if (!request_.values) return OkStatus();
    if (scheme_.quantises()) NXDKIT_TRY(CheckFp8());
    for (const models::Alias& alias : model_.config.aliases) NXDKIT_TRY(CheckTie(alias));
    return OkStatus();
  }

 private:
  static Finding On(const StoredTensor& tensor, const char* check, std::string message) {
    return Finding(check, std::move(message)).in(tensor.storage->path()).on(tensor.name);
  }
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  Status CheckFp8() {
    std::vector<const StoredTensor*> tensors;
    uint64_t bytes = 0;
    for (const models::Param& param : model_.params)
      if (const StoredTensor* tensor = folder_.Find(param.name);
          tensor && tensor->dtype == Dtype::kF8E4M3) {
        tensors.push_back(tensor);
        NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(tensor->dtype, tensor->shape));
        bytes += packed;
      }
    if (tensors.empty()) return OkStatus();
    if (request_.run.begin) request_.run.begin("checking FP8 weights", bytes);
    std::vector<BeyondRange> found(tensors.size());
    NXDKIT_TRY(ParallelFor(tensors.size(), request_.run.jobs, [&](size_t i) {
      return FindBeyond(*tensors[i], vllm_neuron::LargestE4M3Bits(request_.target), request_.run)
          .To(found[i]);
    }));
    uint64_t over = 0, nans = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      over += found[i].over;
      nans += found[i].nan;
      if (found[i].nan > 0) ReportNan(*tensors[i], found[i]);
    }
    if (nans == 0)
      report_.checks.push_back(
          fmt::format("FP8: {} weights were checked, and have no NaN", tensors.size()));
    if (request_.target == vllm_neuron::Target::kTrn2) WarnOfRescaling(over);
    return OkStatus();
  }

  void ReportNan(const StoredTensor& tensor, const BeyondRange& found) {
    const Shape at = IndexOf(found.first_nan, tensor.shape);
    Finding finding = On(tensor, "FP8 NaN",
                         fmt::format("{} are NaN; the first is at {}", found.nan, ShapeText(at)))
                          .differs("nan", "a number");
    finding.index = at;
    finding.count = static_cast<int64_t>(found.nan);
    Add(std::move(finding));
  }

  void WarnOfRescaling(uint64_t over) {
    report_.warnings.push_back(fmt::format(
        "FP8: the loader rescales on trn2: weights by 240 / 448, rounded to E4M3 again, and their "
        "scales by 448 / 240; {} codes above {} need this, and others are rounded with them",
        over, vllm_neuron::LargestE4M3(request_.target)));
  }

  // The loader reads the embedding for the head of a tied model, and ignores a stored head.
  Status CheckTie(const models::Alias& alias) {
    const StoredTensor* head = folder_.Find(alias.name);
    const StoredTensor* of = folder_.Find(alias.of);
    if (!head || !of) return OkStatus();
    const std::string told =
        fmt::format("the model is tied, and the loader takes {} in its place", alias.of);
    if (head->shape != of->shape || head->dtype != of->dtype) {
      Add(On(*head, "tied", told)
              .differs(fmt::format("{} {}", Name(head->dtype), ShapeText(head->shape)),
                       fmt::format("{} {}", Name(of->dtype), ShapeText(of->shape))));
      return OkStatus();
    }
    bool equal = true;
    const auto compare = [&](uint64_t, const std::array<std::vector<std::byte>, 2>& chunks) {
      return equal = chunks[0] == chunks[1];
    };
    NXDKIT_TRY(ReadTogether<2>({head, of}, request_.run, compare));
    if (equal)
      report_.checks.push_back(fmt::format("tied: {} is {}", alias.name, alias.of));
    else
      Add(On(*head, "tied", told + ": the two differ"));
    return OkStatus();
  }

  const ServedFolder& folder_;
  const models::Model& model_;
  const ServedScheme& scheme_;
  const ServeRequest& request_;
  ServeReport& report_;
};

}  // namespace

Status CheckServedValues(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, const ServeRequest& request,
                         ServeReport& report) {
  return ServedValues(folder, model, scheme, request, report).Run();
}

}  // namespace nxdkit::ops
