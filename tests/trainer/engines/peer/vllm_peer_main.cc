// A server as a run starts one: vllm-peer PORT FOLDER [FAULT...]. Faults, for the tests of who
// starts it: `exits` before it answers; `dies-at N`: at the N-th request for tokens; `silent`: it
// never answers; `hangs-at PATH FILE`: PATH is not answered, and FILE made when it is asked for;
// `log FOLDER`: what it is asked for goes to a file there with the port as its name; `once FILE`:
// the faults before it only while FILE is not there, which is made then.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/trainer/engines/vllm_peer.h"

namespace nxdkit::trainer {
namespace {

struct Faults {
  bool exits = false, silent = false;
  int dies_at = 0;
  std::string hangs_at, hangs, log;
};

Faults ReadFaults(int count, char** words) {
  Faults faults;
  for (int i = 3; i < count; ++i) {
    const std::string word = words[i];
    if (word == "exits") faults.exits = true;
    if (word == "silent") faults.silent = true;
    if (word == "dies-at") faults.dies_at = std::atoi(words[++i]);
    if (word == "log") faults.log = words[++i];
    if (word == "hangs-at") {
      faults.hangs_at = words[++i];
      faults.hangs = words[++i];
    }
    if (word == "once" && ::open(words[++i], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666) < 0)
      faults = {};
  }
  return faults;
}

int Serve(int count, char** words) {
  const Faults faults = ReadFaults(count, words);
  if (faults.exits) return 3;
  if (faults.silent) {
    ::pause();
    return 0;
  }
  // A child, as a real one has: it must not be left behind.
  if (::fork() == 0) {
    ::pause();
    ::_exit(0);
  }
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  int asked = 0;
  const VllmPeer::Fault fault = [&](const std::string& path, const Json& body) {
    const bool probe = path == "/inference/v1/generate" && body.value("token_ids", Json()).empty();
    if (path == "/inference/v1/generate" && !probe && ++asked == faults.dies_at) ::_exit(7);
    if (!faults.log.empty())
      std::ofstream(faults.log + "/" + words[1], std::ios::app) << path << "\n";
    if (path == faults.hangs_at && !probe) {
      std::ofstream(faults.hangs).flush();
      ::pause();
    }
    return std::optional<VllmPeer::Answer>();
  };
  const VllmPeer peer(words[2], std::atoi(words[1]), fault);
  int signal = 0;
  ::sigwait(&term, &signal);
  ::_exit(0);  // whatever a request waits for
}

}  // namespace
}  // namespace nxdkit::trainer

int main(int count, char** words) { return count < 3 ? 2 : nxdkit::trainer::Serve(count, words); }
