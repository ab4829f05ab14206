// PRIVATE to trainer/rollout. The protocol between a trainer and its rollout workers: frames of
//
//   magic "NXRW" | kind u32 | bytes u64 | payload
//
// little-endian, over a pipe or socket; the payloads are those of messages.h. Neither side trusts
// the other: a payload is bounded by kMaxFrameBytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::trainer {

inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;

enum class FrameKind : uint32_t {
  kHello = 1,     // worker: protocol version u32
  kLoad = 2,      // trainer: EngineOptions
  kLoaded = 3,    // worker: EngineFacts
  kGenerate = 4,  // trainer: numbered requests
  kResponse = 5,  // worker: number, response
  kDone = 6,      // worker: GenerateStats
  kFailed = 7,    // worker: Error of kLoad or kGenerate
  kProgress = 8,  // worker: is at work
  kBroken = 9,    // worker: Error; its engine has failed and must be restarted
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::string payload;
};

std::string MakeFrame(FrameKind kind, std::string_view payload);

// Removes the first frame from `bytes`; nullopt when it is incomplete. kCorrupt for other bytes.
Result<std::optional<Frame>> TakeFrame(std::string& bytes);

}  // namespace nxdkit::trainer
