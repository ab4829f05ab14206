// The program of every command that is in the library: the name that it is called by says which.
#include "tools/library/nxdkit.h"

int main(int argc, char** argv) { return nxdkit_main(nullptr, argc, argv); }
