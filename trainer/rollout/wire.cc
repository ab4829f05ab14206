#include "trainer/rollout/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

static_assert(std::endian::native == std::endian::little);

struct FrameHeader {
  char magic[4] = {'N', 'X', 'R', 'W'};
  FrameKind kind = FrameKind::kHello;
  uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16);

}  // namespace

std::string MakeFrame(FrameKind kind, std::string_view payload) {
  const FrameHeader header{.kind = kind, .bytes = payload.size()};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header).append(payload);
}

Result<std::optional<Frame>> TakeFrame(std::string& bytes) {
  FrameHeader header;
  if (!std::equal(bytes.begin(), bytes.begin() + std::min(bytes.size(), sizeof header.magic),
                  header.magic))
    return Corrupt("this is not a frame of the rollout protocol");
  if (bytes.size() < sizeof header) return std::optional<Frame>();
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.kind < FrameKind::kHello || header.kind > FrameKind::kBroken)
    return Corrupt("a frame of kind {}, expected 1 to 9", static_cast<uint32_t>(header.kind));
  if (header.bytes > kMaxFrameBytes)
    return Corrupt("a frame of {} bytes is over the limit of {}", header.bytes, kMaxFrameBytes);
  if (bytes.size() - sizeof header < header.bytes) return std::optional<Frame>();
  Frame frame{header.kind, bytes.substr(sizeof header, header.bytes)};
  bytes.erase(0, sizeof header + header.bytes);
  return std::optional<Frame>(std::move(frame));
}

}  // namespace nxdkit::trainer
