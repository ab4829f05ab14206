#include "trainer/learner/peer_reads.h"

#include <utility>

#include "trainer/comm/messages.h"

namespace nxdkit::trainer {
namespace {

// Sent as bytes: all processes run the same program.
struct Asked {
  PeerRead what;
  uint64_t bytes = 0;  // 0: no more requests; kNothingYet: the process works
};
constexpr uint64_t kNothingYet = UINT64_MAX;

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, size_t{1}));
}

}  // namespace

PeerReads::PeerReads(Transport& transport, int processes, ReadOwn own)
    : transport_(transport),
      processes_(processes),
      own_(std::move(own)),
      tells_(transport.patience() / 8),
      reading_(static_cast<size_t>(processes)) {
  for (int p = 0; p < processes; ++p)
    if (p != transport.process()) servers_.emplace_back([this, p] { Serve(p); });
}

Status PeerReads::Working() {
  if (!tells_.Passed()) return OkStatus();
  for (int p = 0; p < processes_; ++p) {
    if (p == transport_.process()) continue;
    const std::unique_lock lock(reading_[static_cast<size_t>(p)], std::try_to_lock);
    if (!lock.owns_lock()) continue;  // a read is in progress
    Asked nothing{{}, kNothingYet};
    const Transport::Send send{p, kReadChannel, BytesOf(nothing)};
    NXDKIT_TRY(transport_.Run({&send, 1}, {}, {&cut_, transport_.patience()}));
  }
  return OkStatus();
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
  return Error(Errc::kInternal, "another process does not have the part that was requested");
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
  return std::move(failed_);
}

void PeerReads::Failed(Status status) {
  const std::scoped_lock lock(mutex_);
  if (failed_.ok()) failed_ = std::move(status);
}

// Serves until that process has read everything. If it is silent for so long, it or its disk hangs,
// and the others cannot go on without it.
void PeerReads::Serve(int process) {
  std::vector<std::byte> bytes;
  while (true) {
    Asked asked;
    const Transport::Receive receive{process, kReadChannel, BytesOf(asked)};
    Status heard =
        transport_.Run({}, {&receive, 1}, {&cut_, transport_.patience(), Transport::Pace::kIdle});
    if (!heard.ok()) return Failed(std::move(heard));
    if (asked.bytes == 0) return;
    if (asked.bytes == kNothingYet) continue;
    bytes.resize(asked.bytes);
    uint8_t good = own_(asked.what, bytes).ok() ? 1 : 0;
    const Transport::Send sends[] = {{process, kReadAnswerChannel, BytesOf(good)},
                                     {process, kReadAnswerChannel, bytes}};
    Status sent = transport_.Run(sends, {}, {&cut_, transport_.patience()});
    if (!sent.ok()) return Failed(std::move(sent));
  }
}

}  // namespace nxdkit::trainer
