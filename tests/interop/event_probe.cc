// Writes event files for tensorboard_interop.py. Usage: event_probe FOLDER
#include <cmath>
#include <cstdio>
#include <limits>

#include "trainer/report/event_file.h"

namespace {

using nxdkit::Result;
using nxdkit::Status;
using nxdkit::trainer::EventFile;

Status WriteRun(const std::string& folder) {
  NXDKIT_ASSIGN(EventFile first, EventFile::Create(folder, 0));
  for (const int64_t step : {1, 2, 300, 70000})
    NXDKIT_TRY(first.WriteScalars(
        step, {{"actor/pg_loss", 0.25 * static_cast<double>(step)}, {"reward/overall", -1.5}}));
  NXDKIT_TRY(first.WriteScalars(
      70001, {{"odd/nan", std::nan("")}, {"odd/inf", std::numeric_limits<double>::infinity()}}));
  NXDKIT_TRY(first.WriteText(1, "config", "lr: 1.0e-05\n\n**bold** \xe2\x88\x9a"));
  // Resumed from step 300: later steps in the first file are to be ignored.
  NXDKIT_ASSIGN(EventFile second, EventFile::Create(folder, 300));
  NXDKIT_TRY(second.WriteScalars(301, {{"actor/pg_loss", 7}}));
  return nxdkit::OkStatus();
}

// The messages themselves, to compare with those of the protocol buffers library.
void PrintHex(const std::string& name, const std::string& bytes) {
  std::printf("%s ", name.c_str());
  for (const char c : bytes) std::printf("%02x", static_cast<unsigned char>(c));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  namespace t = nxdkit::trainer;
  PrintHex("version", t::VersionEvent(1.5));
  PrintHex("scalars", t::ScalarsEvent(1.5, 300, {{"a/b", 0.5}, {"c", -1}}));
  PrintHex("text", t::TextEvent(1.5, 1, "t", "hi"));
  PrintHex("restart", t::RestartEvent(1.5, 8));
  const Status status = WriteRun(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return 1;
}
