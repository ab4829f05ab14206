#include "lib/system/lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>

namespace nxdkit {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;

class Collector {
 public:
  Collector(uint64_t max_bytes, const LineTaker& each) : max_bytes_(max_bytes), each_(each) {}

  Status Take(std::string_view block) {
    for (size_t end; (end = block.find('\n')) != std::string_view::npos;) {
      NXDKIT_TRY(Add(block.substr(0, end)));
      NXDKIT_TRY(each_(pending_, number_++, true));
      pending_.clear();
      block.remove_prefix(end + 1);
    }
    return Add(block);
  }
  Status Finish() { return pending_.empty() ? OkStatus() : each_(pending_, number_, false); }

 private:
  Status Add(std::string_view part) {
    if (part.size() > max_bytes_ - pending_.size())
      return Error(Errc::kLimit,
                   fmt::format("line {}: it is over the limit of {} bytes", number_, max_bytes_));
    pending_ += part;
    return OkStatus();
  }

  const uint64_t max_bytes_;
  const LineTaker& each_;
  std::string pending_;
  uint64_t number_ = 1;
};

}  // namespace

Status ForEachLine(const File& file, uint64_t max_bytes, const LineTaker& each) {
  Collector lines(max_bytes, each);
  std::string block;
  for (uint64_t offset = 0; offset < file.bytes(); offset += block.size()) {
    block.resize(std::min(kBlockBytes, file.bytes() - offset));
    NXDKIT_TRY(file.ReadAt(offset, std::as_writable_bytes(std::span(block))));
    NXDKIT_TRY(lines.Take(block));
  }
  return lines.Finish();
}

}  // namespace nxdkit
