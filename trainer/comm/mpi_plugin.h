// The interface of trainer/mpi/plugin.c: MPI behind a table of functions, so that a binary needs
// MPI only when it was started by it. It is in C because it crosses a library boundary. PRIVATE to
// trainer/comm and trainer/mpi.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NXDKIT_MPI_VERSION 2
#define NXDKIT_MPI_TOO_LONG ((size_t)-1)
#define NXDKIT_MPI_SYMBOL "nxdkit_mpi"

/* Returned by functions: 0 is good, else a text that lives as long as the library. */
typedef const char* NxdkitMpiError;

struct NxdkitMpi {
  int version;
  /* Once, before all others; from then on any thread may call the rest. */
  NxdkitMpiError (*start)(int* process, int* processes);
  /* `bytes` is at most 2^30. The request is freed by `test` when it says done; until then the
     buffer is MPI's. */
  NxdkitMpiError (*send)(const void* from, size_t bytes, int to, int tag, void** request);
  NxdkitMpiError (*receive)(void* to, size_t bytes, int from, int tag, void** request);
  /* `bytes`: of what was received, when done; 0 of what was cancelled, NXDKIT_MPI_TOO_LONG of what
     is longer than its buffer. */
  NxdkitMpiError (*test)(void* request, int* done, size_t* bytes);
  /* Of `receive`: when nothing has begun to arrive, `test` says done from now on. */
  void (*cancel)(void* request);
  /* When all processes have nothing to say any more. Waits for the others. */
  NxdkitMpiError (*finish)(void);
};

typedef const struct NxdkitMpi* (*NxdkitMpiTable)(void);

#ifdef __cplusplus
}
#endif
