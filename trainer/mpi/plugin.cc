// See trainer/comm/mpi_plugin.h. Works with any MPI-3 library that has MPI_THREAD_MULTIPLE.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdlib.h>

#include <memory>

#include "trainer/comm/mpi_plugin.h"

namespace nxdkit::trainer {
namespace {

// The process's only MPI: MPI is global, and so is the state derived from it.
MPI_Comm world = MPI_COMM_NULL;

NxdkitMpiError Check(int code) {
  static thread_local char text[MPI_MAX_ERROR_STRING];
  if (code == MPI_SUCCESS) return nullptr;
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

// Open MPI (4.1.4) prefers to write a long message into the memory of its receiver after a request
// from there: but if both sides send, the request waits behind the other message, and the wire
// carries one direction after the other (94 MB each way over 1 Gbit/s: 1.57 s instead of 0.81). The
// user's environment takes precedence.
void SendAndReceiveAtOnce() { setenv("OMPI_MCA_btl_tcp_flags", "send", 0); }

NxdkitMpiError Start(int* process, int* processes) {
  SendAndReceiveAtOnce();
  int provided = 0;
  if (NxdkitMpiError error =
          Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided)))
    return error;
  if (provided < MPI_THREAD_MULTIPLE) return "the MPI library does not allow several threads";
  // A separate communicator, so that no other code's message is taken for ours.
  if (NxdkitMpiError error = Check(MPI_Comm_dup(MPI_COMM_WORLD, &world))) return error;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, process);
  MPI_Comm_size(world, processes);
  return nullptr;
}

template <typename Post>
NxdkitMpiError MakeRequest(void** request, const Post& post) {
  auto made = std::make_unique<MPI_Request>();
  if (NxdkitMpiError error = Check(post(made.get()))) return error;
  *request = made.release();
  return nullptr;
}

NxdkitMpiError Send(const void* from, size_t bytes, int to, int tag, void** request) {
  return MakeRequest(request, [&](MPI_Request* made) {
    return MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, tag, world, made);
  });
}

NxdkitMpiError Receive(void* to, size_t bytes, int from, int tag, void** request) {
  return MakeRequest(request, [&](MPI_Request* made) {
    return MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, tag, world, made);
  });
}

NxdkitMpiError Test(void* request, int* done, size_t* bytes) {
  MPI_Status status;
  const int code = MPI_Test(static_cast<MPI_Request*>(request), done, &status);
  int kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE) {
    *done = 1;
    *bytes = NXDKIT_MPI_TOO_LONG;
    delete static_cast<MPI_Request*>(request);
    return nullptr;
  }
  NxdkitMpiError error = Check(code);
  if (error != nullptr || *done == 0) return error;
  int count = 0, cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled == 0) MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = count == MPI_UNDEFINED ? 0 : static_cast<size_t>(count);
  delete static_cast<MPI_Request*>(request);
  return nullptr;
}

void Cancel(void* request) { MPI_Cancel(static_cast<MPI_Request*>(request)); }

NxdkitMpiError Finish() {
  if (NxdkitMpiError error = Check(MPI_Comm_free(&world))) return error;
  return Check(MPI_Finalize());
}

constexpr NxdkitMpi kTable = {NXDKIT_MPI_VERSION, Start, Send, Receive, Test, Cancel, Finish};

}  // namespace
}  // namespace nxdkit::trainer

extern "C" const NxdkitMpi* nxdkit_mpi() { return &nxdkit::trainer::kTable; }
