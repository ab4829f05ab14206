// Signals as flags: SIGINT and SIGTERM, so that long loops end through the ordinary error path and
// clean up; SIGUSR1, so that a long run saves what it has.
#pragma once

#include <optional>

#include "lib/base/error.h"

namespace nxdkit {

// For tools only, once, before threads start. A signal that is already ignored (nohup, a background
// job) stays ignored. The first signal sets the flag; a second one of the same kind ends the
// process at once, as without this call. SIGCHLD is reset even if our parent ignored it: the exit
// codes of our programs would be lost.
void InstallSignalHandlers();

// From here on a second SIGTERM changes nothing: batch systems send it several times within
// milliseconds. A second SIGINT still ends the process.
void OutliveTermSignals();

// The first signal that came; nullopt if none did. Thread-safe, cheap enough for every chunk.
std::optional<int> Interrupted();

// kInterrupted after a signal: NXDKIT_TRY(StopIfInterrupted()) in a loop.
Status StopIfInterrupted();

// For tests, and for a tool that goes on after a signal.
void ClearInterrupted();

// Behaves as if the signal, SIGINT, SIGTERM or SIGUSR1, had come, which another process got
// instead. A real one that comes after it still counts as the first.
void TakeForeignSignal(int signal);

// For tools that can save their work: from here on SIGUSR1, which would end the process, asks for
// that. Batch systems send it some time before they end a job.
void InstallSaveSignal();

bool TakeSaveRequest();  // whether SIGUSR1 came since the last call; thread-safe

// For helper processes of such a tool: signals to the whole group are not for them.
void IgnoreSaveSignal();

}  // namespace nxdkit
