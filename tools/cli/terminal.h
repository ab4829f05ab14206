// PRIVATE to tools/: the terminal and the CPUs of the process.
#pragma once

#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::tool {

bool StderrIsTerminal();
// A terminal on which a line can be redrawn: not a "dumb" one.
bool StderrIsScreen();

// Whether to colour stderr. "always" and "never" decide; "auto" means a terminal that is not
// "dumb", and no NO_COLOR in the environment (no-color.org: set and not empty).
bool ColorOnStderr(std::string_view color_option);

// Writes and flushes. kIo when stdout cannot take it (a full disk); success when the reader has
// closed the pipe early, as `| head` does: `closed` is then true.
Status WriteStdout(std::string_view text, bool* closed);
void WriteStderr(std::string_view text);

// The width of the terminal behind stdout or stderr as it is now, 80 if it does not say; 0 without
// a terminal: text for scripts and files is never cut.
int StdoutColumns();
int StderrColumns();
// Whether LC_ALL, LC_CTYPE or LANG, the first that is set, names UTF-8.
bool LocaleIsUtf8();

// CPUs this process may run on (affinity and the cgroup's quota), at least 1.
int UsableCpus();

}  // namespace nxdkit::tool
