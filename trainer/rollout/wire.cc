#include "trainer/rollout/wire.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

constexpr char kMagic[] = "NXRW";

}  // namespace

std::string MakeFrame(FrameKind kind, std::string_view payload) {
  WireWriter writer;
  for (const char c : std::string_view(kMagic)) writer.Put(c);
  writer.Put(static_cast<uint32_t>(kind));
  writer.Put<uint64_t>(payload.size());
  return writer.Take().append(payload);
}

Result<std::optional<Frame>> TakeFrame(std::string& bytes) {
  const size_t known = std::min(bytes.size(), std::strlen(kMagic));
  if (bytes.compare(0, known, kMagic, known) != 0)
    return Error(Errc::kCorrupt, "what came is not a frame of the rollout protocol");
  if (bytes.size() < kFrameHeaderBytes) return std::optional<Frame>();
  WireReader header(std::string_view(bytes).substr(4, 12));
  const uint32_t kind = header.Get<uint32_t>();
  const uint64_t size = header.Get<uint64_t>();
  if (kind < static_cast<uint32_t>(FrameKind::kHello) ||
      kind > static_cast<uint32_t>(FrameKind::kProgress))
    return Error(Errc::kCorrupt, fmt::format("a frame of kind {}, expected 1 to 8", kind));
  if (size > kMaxFrameBytes)
    return Error(Errc::kCorrupt,
                 fmt::format("a frame of {} bytes is over the limit of {}", size, kMaxFrameBytes));
  if (bytes.size() - kFrameHeaderBytes < size) return std::optional<Frame>();
  Frame frame{static_cast<FrameKind>(kind), bytes.substr(kFrameHeaderBytes, size)};
  bytes.erase(0, kFrameHeaderBytes + static_cast<size_t>(size));
  return std::optional<Frame>(std::move(frame));
}

bool WireReader::Has(uint64_t size, uint64_t count) {
  if (error_) return false;
  const uint64_t left = bytes_.size() - at_;
  if (size == 0 || count <= left / size) return true;
  error_ = Error(Errc::kCorrupt,
                 fmt::format("{} x {} bytes are announced, {} are left", count, size, left))
               .at(at_);
  return false;
}

Status WireReader::Finish() const {
  if (error_) return *error_;
  if (at_ == bytes_.size()) return OkStatus();
  return Error(Errc::kCorrupt, fmt::format("{} bytes are left over", bytes_.size() - at_)).at(at_);
}

}  // namespace nxdkit::trainer
