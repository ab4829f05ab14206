// While all processes of a mesh write a checkpoint together, each reads from the others what its
// files have of their arrays. Every process makes one, at the same time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "trainer/base/interval.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

struct PeerRead {
  int32_t rank = 0, array = 0, part = 0;  // MeshModel::ArrayName
  uint64_t offset = 0;                    // bytes
};

class PeerReads {
 public:
  using ReadOwn = std::function<Status(const PeerRead& what, std::span<std::byte> to)>;
  // Of the first `processes`, of which this is one. `own`: of this process, from any thread.
  // `transport` must outlive it.
  PeerReads(Transport& transport, int processes, ReadOwn own);
  ~PeerReads();  // at once: whoever reads still is left waiting
  PeerReads(const PeerReads&) = delete;
  PeerReads& operator=(const PeerReads&) = delete;

  // To be called now and then while this process has nothing to read, or else the others take it to
  // hang. Thread-safe.
  Status Working();
  // Thread-safe.
  Status Read(int process, const PeerRead& what, std::span<std::byte> to);
  // This process reads no more. Returns when no other one does either: all that they serve may
  // change from then on. kLost when one of them hangs.
  Status End();

 private:
  void Serve(int process);
  void Failed(Status status);

  Transport& transport_;
  const int processes_;
  const ReadOwn own_;
  std::atomic<bool> cut_{false};
  Interval tells_;                   // several times within the others' patience
  std::vector<std::mutex> reading_;  // of each process
  std::mutex mutex_;
  Status failed_ = OkStatus();  // the first one of a server
  std::vector<std::jthread> servers_;
};

}  // namespace nxdkit::trainer
