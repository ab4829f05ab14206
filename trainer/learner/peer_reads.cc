#include "trainer/learner/peer_reads.h"

#include <utility>

#include "trainer/comm/messages.h"

namespace nxdkit::trainer {
namespace {

// On the wire between equal programs.
struct Asked {
  PeerRead what;
  uint64_t bytes = 0;  // 0: nothing more is asked
};

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, size_t{1}));
}

}  // namespace

PeerReads::PeerReads(Transport& transport, int processes, ReadOwn own)
    : transport_(transport),
      processes_(processes),
      own_(std::move(own)),
      reading_(static_cast<size_t>(processes)) {
  for (int p = 0; p < processes; ++p)
    if (p != transport.process()) servers_.emplace_back([this, p] { Serve(p); });
}

PeerReads::~PeerReads() { cut_ = true; }

Status PeerReads::Read(int process, const PeerRead& what, std::span<std::byte> to) {
  const std::scoped_lock lock(reading_[static_cast<size_t>(process)]);
  const Transport::Waiting waiting{&cut_, transport_.patience()};
  Asked asked{what, to.size()};
  uint8_t good = 0;
  const Transport::Send send{process, kReadChannel, BytesOf(asked)};
  const Transport::Receive receives[] = {{process, kReadAnswerChannel, BytesOf(good)},
                                         {process, kReadAnswerChannel, to}};
  NXDKIT_TRY(transport_.Run({&send, 1}, receives, waiting));
  if (good != 0) return OkStatus();
  return Error(Errc::kInternal, "another process does not have what is read from it");
}

Status PeerReads::End() {
  for (int p = 0; p < processes_; ++p) {
    if (p == transport_.process()) continue;
    Asked end;
    const Transport::Send send{p, kReadChannel, BytesOf(end)};
    NXDKIT_TRY(transport_.Run({&send, 1}, {}, {&cut_, transport_.patience()}));
  }
  for (std::jthread& server : servers_) server.join();
  servers_.clear();
  return OkStatus();
}

// Until that process has read all; its own work in between may take long.
void PeerReads::Serve(int process) {
  std::vector<std::byte> bytes;
  while (true) {
    Asked asked;
    const Transport::Receive receive{process, kReadChannel, BytesOf(asked)};
    if (!transport_.Run({}, {&receive, 1}, {&cut_, std::nullopt, Transport::Pace::kIdle}).ok())
      return;
    if (asked.bytes == 0) return;
    bytes.resize(asked.bytes);
    uint8_t good = own_(asked.what, bytes).ok() ? 1 : 0;
    const Transport::Send sends[] = {{process, kReadAnswerChannel, BytesOf(good)},
                                     {process, kReadAnswerChannel, bytes}};
    if (!transport_.Run(sends, {}, {&cut_, transport_.patience()}).ok()) return;
  }
}

}  // namespace nxdkit::trainer
