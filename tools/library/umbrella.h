// PRIVATE to tools/: the program `nxdkit`, whose first argument is the word of a command.
#pragma once

namespace nxdkit::tool {

// Returns the exit code. A command that is a program of its own replaces this process.
int RunUmbrella(int argc, const char* const* argv);

}  // namespace nxdkit::tool
