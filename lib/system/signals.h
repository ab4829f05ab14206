// Signals as flags: SIGINT and SIGTERM, so that long loops end through the ordinary error path and
// clean up; SIGUSR1, so that a long run saves what it has.
#pragma once

#include <optional>

#include "lib/base/error.h"

namespace nxdkit {

// For tools only, once, before threads start. A signal that is ignored already (nohup, a background
// job) stays ignored. The first signal sets the flag; a second one of the same kind ends the
// process at once, as if this had not been called. SIGCHLD is no longer ignored where who started
// us had it so: exit codes of our programs would be lost.
void InstallSignalHandlers();

// From here on a second SIGTERM changes nothing: batch systems send it several times within
// milliseconds. A second SIGINT still ends the process.
void OutliveTermSignals();

// The first signal that came; nullopt while none did. Thread-safe, cheap enough for every chunk.
std::optional<int> Interrupted();

// kInterrupted once a signal came: NXDKIT_TRY(StopIfInterrupted()) in a loop.
Status StopIfInterrupted();

// For tests, and for a tool that goes on after a signal.
void ClearInterrupted();

// As if the signal, SIGINT, SIGTERM or SIGUSR1, had come, which another process got in our place. A
// real one that comes after it is still the first one.
void TakeForeignSignal(int signal);

// For tools that can save what they have: from here on SIGUSR1, which would end the process, is a
// request to do so. Batch systems send it some time before they end a job.
void InstallSaveSignal();

bool TakeSaveRequest();  // whether SIGUSR1 came since this was asked last; thread-safe

// For helper processes of such a tool: what is sent to the whole group is not for them.
void IgnoreSaveSignal();

}  // namespace nxdkit
