#include "tools/cli/process_host.h"

#include <utility>

#include "lib/system/signals.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {

ProcessHost::ProcessHost(std::string name, bool quiet, bool color)
    : name_(std::move(name)), quiet_(quiet), color_(color) {}

Status ProcessHost::Poll() const { return StopIfInterrupted(); }

void ProcessHost::Line(const std::string& line) {
  if (!quiet_) Write(line);
}

void ProcessHost::Note(const std::string& line) {
  if (!quiet_) Write(line);
}

void ProcessHost::Detail(const std::string& line) { Write(line); }

void ProcessHost::BeginPhase(const std::string& phase, uint64_t bytes) {
  progress_.reset();
  Progress::Screen screen;
  if (!quiet_) screen = {.write = WriteStderr, .columns = nullptr, .name = name_};
  if (!quiet_ && StderrIsScreen()) screen.columns = StderrColumns;
  progress_ = std::make_unique<Progress>(phase, bytes, std::move(screen));
}

void ProcessHost::AddBytes(uint64_t bytes) {
  if (progress_) progress_->Add(bytes);
}

void ProcessHost::EndPhases() { progress_.reset(); }

void ProcessHost::Write(const std::string& line) {
  if (progress_ && !quiet_)
    progress_->WriteAbove(line);
  else
    WriteStderr(line);
}

}  // namespace nxdkit::tool
