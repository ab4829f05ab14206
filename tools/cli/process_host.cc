#include "tools/cli/process_host.h"

#include "lib/system/signals.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {

ProcessHost::ProcessHost(bool quiet, bool color)
    : quiet_(quiet), color_(color), draws_(!quiet && StderrIsTerminal()) {}

Status ProcessHost::Poll() const { return StopIfInterrupted(); }

void ProcessHost::Line(const std::string& line) {
  if (quiet_) return;
  // A progress line may be there: it is drawn again below.
  WriteStderr((draws_ ? "\r\033[K" : "") + line);
}

void ProcessHost::Note(const std::string& line) {
  if (!quiet_) WriteStderr(line);
}

void ProcessHost::Detail(const std::string& line) { WriteStderr(line); }

void ProcessHost::BeginPhase(const std::string& phase, uint64_t bytes) {
  progress_.reset();
  const auto draw = [](std::string_view text) { WriteStderr(text); };
  progress_ = std::make_unique<Progress>(phase, bytes, draws_ ? Progress::Sink(draw) : nullptr);
}

void ProcessHost::AddBytes(uint64_t bytes) {
  if (progress_) progress_->Add(bytes);
}

void ProcessHost::EndPhases() { progress_.reset(); }

}  // namespace nxdkit::tool
