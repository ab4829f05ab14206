// Debian's static libraries were made for programs: they name data of libc directly, which a shared
// library cannot. It brings its own: that nothing is known of threads, so that locks are taken.
extern "C" char __libc_single_threaded;  // NOLINT: the name is glibc's
char __libc_single_threaded = 0;
