// The program of every command in the library: its name selects the command.
#include "tools/library/nxdkit.h"

int main(int argc, char** argv) { return nxdkit_main(nullptr, argc, argv); }
