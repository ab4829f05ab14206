#include "formats/ops/verify/serve_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "formats/ops/verify/serve_names.h"
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

// The numbers of an FP8 tensor that a chip does not have.
struct BeyondRange {
  uint64_t over = 0, nan = 0;
  int64_t first = -1;  // element
  uint8_t bits = 0;    // its own
  double largest = 0;
};

// True where none of eight numbers is beyond `most`: what is added carries into the bit of the
// sign where one is.
bool AllWithin(const std::byte* numbers, uint8_t most) {
  constexpr uint64_t kEach = 0x0101010101010101;
  uint64_t word = 0;
  std::memcpy(&word, numbers, kWordBytes);
  return (((word & (kEach * kSignless)) + kEach * (kNanBits - most)) & (kEach * 0x80)) == 0;
}

Result<BeyondRange> FindBeyond(const StoredTensor& tensor, uint8_t most, const RunOptions& run) {
  BeyondRange found;
  uint8_t largest = 0;
  const auto look_at = [&](uint64_t at, uint8_t bits) {
    const uint8_t size = bits & kSignless;
    if (size <= most) return;
    ++(size == kNanBits ? found.nan : found.over);
    if (size != kNanBits) largest = std::max(largest, size);
    if (found.first >= 0) return;
    found.first = static_cast<int64_t>(at);
    found.bits = bits;
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
  const auto byte = static_cast<std::byte>(largest);
  if (found.over > 0) found.largest = ElementAsDouble(Dtype::kF8E4M3, &byte);
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
  ServedValues(const ServedFolder& folder, const models::Model& model, const ServeRequest& request,
               ServeReport& report)
      : folder_(folder), model_(model), request_(request), report_(report) {}

  Status Run() {
    NXDKIT_TRY(CheckKvScales());
    if (!request_.values) return OkStatus();
    NXDKIT_TRY(CheckFp8());
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
    if (request_.run.begin) request_.run.begin("looking at FP8 weights", bytes);
    std::vector<BeyondRange> found(tensors.size());
    NXDKIT_TRY(ParallelFor(tensors.size(), request_.run.jobs, [&](size_t i) {
      return FindBeyond(*tensors[i], vllm_neuron::LargestE4M3Bits(request_.target), request_.run)
          .To(found[i]);
    }));
    for (size_t i = 0; i < tensors.size(); ++i)
      if (found[i].first >= 0) ReportBeyond(*tensors[i], found[i]);
    report_.checks.push_back(fmt::format("FP8: {} weights were looked at for {}'s range",
                                         tensors.size(), vllm_neuron::TargetName(request_.target)));
    return OkStatus();
  }

  void ReportBeyond(const StoredTensor& tensor, const BeyondRange& found) {
    const int most = vllm_neuron::LargestE4M3(request_.target);
    const auto byte = static_cast<std::byte>(found.bits);
    const std::string value = fmt::format("{}", ElementAsDouble(Dtype::kF8E4M3, &byte));
    std::string message;
    if (found.over > 0)
      message = fmt::format("{} values above {}, up to {}, are no numbers on {}", found.over, most,
                            found.largest, vllm_neuron::TargetName(request_.target));
    if (found.nan > 0)
      message += fmt::format("{}{} are NaN", message.empty() ? "" : "; ", found.nan);
    message += fmt::format("; the first is {} at {}", value,
                           ShapeText(IndexOf(found.first, tensor.shape)));
    Finding finding =
        On(tensor, "FP8 range", std::move(message)).differs(value, fmt::format("at most {}", most));
    finding.index = IndexOf(found.first, tensor.shape);
    finding.count = static_cast<int64_t>(found.over + found.nan);
    Add(std::move(finding));
  }

  Status CheckKvScales() {
    size_t here = 0;
    std::string absent;
    for (int64_t layer = 0; layer < model_.config.layers; ++layer)
      for (const char* name : {"k_scale", "v_scale"}) {
        const std::string key = KvScaleName(layer, name);
        const StoredTensor* tensor = folder_.Find(key);
        if (!tensor && absent.empty()) absent = key;
        if (!tensor) continue;
        ++here;
        NXDKIT_TRY(CheckKvScale(*tensor));
      }
    if (here == 0) return OkStatus();
    if (!absent.empty())
      Add(Finding("KV scale", fmt::format("{} other KV scales are here; without this one the "
                                          "engine takes 1.0",
                                          here))
              .in(folder_.artifact.path)
              .on(absent));
    report_.warnings.push_back(
        fmt::format("{} KV scales count where the KV cache is FP8, as BF16(1 / scale): they are "
                    "constants of the compiled graph, so a graph that was compiled for other "
                    "values serves those",
                    here));
    return OkStatus();
  }

  Status CheckKvScale(const StoredTensor& tensor) {
    if (!Info(tensor.dtype).floating || ElementCount(tensor.shape) != 1) {
      Add(On(tensor, "KV scale",
             fmt::format("{} {} found, expected one floating point number", Name(tensor.dtype),
                         ShapeText(tensor.shape))));
      return OkStatus();
    }
    NXDKIT_ASSIGN(const double scale, ReadSingle(tensor));
    if (scale > 0 && std::isfinite(scale)) return OkStatus();
    Add(On(tensor, "KV scale", fmt::format("{} found: the engine keeps 1 / scale", scale))
            .differs(fmt::format("{}", scale), "a finite number above 0"));
    return OkStatus();
  }

  // The loader reads the embedding for the head of a tied model, and passes a stored head over.
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
  const ServeRequest& request_;
  ServeReport& report_;
};

}  // namespace

Status CheckServedValues(const ServedFolder& folder, const models::Model& model,
                         const ServeRequest& request, ServeReport& report) {
  return ServedValues(folder, model, request, report).Run();
}

}  // namespace nxdkit::ops
