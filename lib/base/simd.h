// One body per instruction set, chosen when the program is loaded: put NXDKIT_CLONES before a
// function whose loops the compiler vectorises. Off under sanitizers, whose runtime is not ready at
// that time, and with clang 14, which lacks the attribute for C++.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define NXDKIT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else  // g++ 11 knows the levels, but cannot dispatch on them
#define NXDKIT_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#else
#define NXDKIT_CLONES
#endif
// For helpers of such functions: they must be compiled for the caller's instruction set.
#define NXDKIT_INLINE inline __attribute__((always_inline))
