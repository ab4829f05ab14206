// PRIVATE to tools/: a command as a process: lines and progress go to stderr, signals stop it.
#pragma once

#include <memory>

#include "tools/cli/host.h"
#include "tools/cli/progress.h"

namespace nxdkit::tool {

class ProcessHost : public Host {
 public:
  // `name`: of the command. `quiet`: no lines and no progress.
  ProcessHost(std::string name, bool quiet, bool color);

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
  void Write(const std::string& line);

  const std::string name_;
  const bool quiet_;
  const bool color_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace nxdkit::tool
