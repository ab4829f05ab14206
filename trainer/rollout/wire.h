// PRIVATE to trainer/rollout. What goes between a trainer and its rollout workers: frames of
//
//   magic "NXRW" | kind u32 | bytes u64 | payload
//
// little-endian, over a pipe or socket; the payloads are made of plain numbers and counted arrays.
// Neither side trusts the other: lengths are bounded by kMaxFrameBytes and by the bytes that are
// there, before memory is taken.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;
inline constexpr size_t kFrameHeaderBytes = 16;

enum class FrameKind : uint32_t {
  kHello = 1,     // worker: protocol version u32
  kLoad = 2,      // trainer: EngineOptions
  kLoaded = 3,    // worker: EngineFacts
  kGenerate = 4,  // trainer: numbered requests
  kResponse = 5,  // worker: number, response
  kDone = 6,      // worker: GenerateStats
  kFailed = 7,    // worker: Error of kLoad or kGenerate
  kProgress = 8,  // worker: is at work
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::string payload;
};

std::string MakeFrame(FrameKind kind, std::string_view payload);

// Takes the first frame off `bytes`; nullopt when it is not whole yet. kCorrupt for what is none.
Result<std::optional<Frame>> TakeFrame(std::string& bytes);

class WireWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void PutArray(std::span<const T> values) {
    Put<uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void PutText(std::string_view text) { PutArray<char>(std::span(text.data(), text.size())); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// The first failure is kept; what is read after it is zero. Ask Finish before using anything.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T Get() {
    T value = {};
    if (!Has(sizeof value, 1)) return value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  bool GetFlag() { return Get<uint8_t>() != 0; }
  template <typename T>
  requires std::is_arithmetic_v<T> std::vector<T> GetArray() {
    const uint64_t count = Get<uint64_t>();
    std::vector<T> values;
    if (!Has(sizeof(T), count) || count == 0) return values;
    values.resize(static_cast<size_t>(count));
    std::memcpy(values.data(), bytes_.data() + at_, static_cast<size_t>(count) * sizeof(T));
    at_ += static_cast<size_t>(count) * sizeof(T);
    return values;
  }
  std::string GetText() {
    const std::vector<char> text = GetArray<char>();
    return std::string(text.begin(), text.end());
  }
  // For a count of things of at least `least` bytes each; 0 when they cannot be there.
  uint64_t GetCount(uint64_t least) {
    const uint64_t count = Get<uint64_t>();
    return Has(least, count) ? count : 0;
  }
  // kCorrupt when a read failed or bytes are left over.
  Status Finish() const;

 private:
  bool Has(uint64_t size, uint64_t count);

  std::string_view bytes_;
  size_t at_ = 0;
  std::optional<Error> error_;
};

}  // namespace nxdkit::trainer
