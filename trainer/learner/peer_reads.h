// Reads between processes while all processes of a mesh write a checkpoint together: each reads the
// parts of the others' arrays that belong into its files. Every process creates one, at the same
// time.
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
  // Between the first `processes` processes, of which this is one. `own`: reads this process's
  // memory; called from any thread. `transport` must outlive it.
  PeerReads(Transport& transport, int processes, ReadOwn own);
  ~PeerReads();  // at once: processes that still read are left waiting
  PeerReads(const PeerReads&) = delete;
  PeerReads& operator=(const PeerReads&) = delete;

  // Call it now and then while this process has nothing to read, or the others assume that it
  // hangs. Thread-safe.
  Status Working();
  // Thread-safe.
  Status Read(int process, const PeerRead& what, std::span<std::byte> to);
  // Ends this process's reads. Returns when no other process reads either: the memory that they
  // serve may change from then on. kLost when one of them hangs.
  Status End();

 private:
  void Serve(int process);
  void Failed(Status status);

  Transport& transport_;
  const int processes_;
  const ReadOwn own_;
  std::atomic<bool> cut_{false};
  Interval tells_;                   // several times within the others' patience
  std::vector<std::mutex> reading_;  // for each process
  std::mutex mutex_;
  Status failed_ = OkStatus();  // the first failure of a server
  std::vector<std::jthread> servers_;
};

}  // namespace nxdkit::trainer
