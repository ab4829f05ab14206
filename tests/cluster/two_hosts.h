// PRIVATE to tests. Two machines: network namespaces with a cable between them. They are in a room
// of their own, with namespaces of processes, mounts and shared memory, that ends with the object,
// or with the process of the test in whatever way it ends: the kernel kills everything in it. So no
// name, port or file of one test meets those of another, and nothing is left on this machine.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {

class TwoHosts {
 public:
  static constexpr const char* kHosts[] = {"hostA", "hostB"};
  static constexpr const char* kNetwork = "10.77.0.0/24";

  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // Why there are no hosts, such as missing root rights; "" when they exist.
  const std::string& missing() const { return missing_; }
  // For files that are removed with the hosts.
  const TempFolder& folder() const { return folder_; }

  // The words that run a command of bash on a host.
  std::vector<std::string> On(const std::string& host, const std::string& command) const;
  // With these mpirun notices a lost host; without, it hangs.
  static constexpr const char* kKeepalives =
      "--mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 1 "
      "--mca oob_tcp_keepalive_probes 3";
  // The words that run one process on each host by mpirun, and end it after so many seconds.
  std::vector<std::string> OnBoth(const std::vector<std::string>& command,
                                  const std::string& options = kKeepalives,
                                  int seconds = 300) const;

  // The living processes of a host whose command lines hold `word`.
  std::vector<pid_t> Processes(const std::string& host, const std::string& word = "") const;
  // Kills them, and those that start meanwhile. Without a word it is like a power failure of the
  // host.
  void Kill(const std::string& host, const std::string& word = "") const;
  void CutWire() const;
  // Returns when the hosts reach each other.
  void HealWire() const;

 private:
  void Start();
  std::vector<std::string> Inside(const std::vector<std::string>& words) const;

  const TempFolder folder_;
  std::string missing_;
  pid_t room_ = -1;  // the process outside that holds the room
  pid_t init_ = -1;  // the first process inside, as numbered outside
  std::string networks_[2];
};

// "'a' 'b c'": words as a shell takes them. None may hold a quote.
std::string Quoted(const std::vector<std::string>& words);

}  // namespace nxdkit::test
