// PRIVATE to tools/: a command that another program calls: it prints nothing; its caller sees the
// progress and may stop it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tools/cli/host.h"
#include "tools/library/nxdkit.h"

namespace nxdkit::tool {

// The error of a call that its caller stopped, or did not let begin.
Error StoppedByCaller();

class LibraryHost : public Host {
 public:
  Status Poll() const override;
  void Line(const std::string&) override {}  // the answer has it
  void Note(const std::string& line) override { Keep(line); }
  void Detail(const std::string& line) override { Keep(line); }
  void BeginPhase(const std::string& phase, uint64_t bytes) override;
  void AddBytes(uint64_t bytes) override { done_.fetch_add(bytes, std::memory_order_relaxed); }
  void EndPhases() override {}
  const HeldSource* Held(const std::string& path) const override;

  // Registers a source of the caller under the name of a path. Called before the work.
  void Hold(const std::string& name, HeldSource source) { held_[name] = std::move(source); }

  // Runs `work` on a thread of its own while calling `progress` on this one, and once more at the
  // end; without `progress`, on this thread. Rethrows an exception of `work`.
  void Run(const std::function<void()>& work, nxdkit_progress progress, void* context);

 private:
  void Keep(const std::string& line);
  bool Tell(nxdkit_progress progress, void* context) noexcept;  // false: stop

  bool is_watched_ = false;  // a caller receives the messages
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;  // guards the following members
  std::string phase_;
  uint64_t total_ = 0;
  std::vector<std::string> messages_;
  std::map<std::string, HeldSource> held_;
};

}  // namespace nxdkit::tool
