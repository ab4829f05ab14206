// PRIVATE to tools/: a command as a process: lines and progress on stderr, stopped by signals.
#pragma once

#include <memory>

#include "lib/base/progress.h"
#include "tools/cli/host.h"

namespace nxdkit::tool {

class ProcessHost : public Host {
 public:
  // `quiet`: no lines and no progress.
  ProcessHost(bool quiet, bool color);

  Status Poll() const override;
  void Line(const std::string& line) override;
  void Note(const std::string& line) override;
  void Detail(const std::string& line) override;
  void BeginPhase(const std::string& phase, uint64_t bytes) override;
  void AddBytes(uint64_t bytes) override;
  void EndPhases() override;
  bool has_color() const override { return color_; }
  bool is_process() const override { return true; }

 private:
  const bool quiet_;
  const bool color_;
  const bool draws_;  // progress: on a terminal only
  std::unique_ptr<Progress> progress_;
};

}  // namespace nxdkit::tool
