// Debian's static libraries were made for programs: they name data of libc directly, which a shared
// library cannot. This is a copy of its own; 0 means that threads may exist, so locks are taken.
extern "C" char __libc_single_threaded;  // NOLINT: the name is glibc's
char __libc_single_threaded = 0;
