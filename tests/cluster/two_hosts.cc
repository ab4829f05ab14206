#include "tests/cluster/two_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/lib/eventually.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using testing_util::Eventually;

// The first process of the room. It reaps orphaned processes, as the first process of a machine
// does. /run is where ip keeps the names of namespaces.
constexpr const char* kRoom = R"sh(set -e
cd "$(dirname "$0")"
mount -t tmpfs room /run
mount -t tmpfs room /dev/shm
mount --bind hosts /etc/hosts
for host in hostA hostB; do
  ip netns add $host
  ip -n $host link set lo up
done
ip -n hostA link add cable type veth peer name cable netns hostB
ip -n hostA addr add 10.77.0.1/24 dev cable
ip -n hostB addr add 10.77.0.2/24 dev cable
ip -n hostA link set cable up
ip -n hostB link set cable up
touch up
sleep infinity &
wait
)sh";

// mpirun starts its daemons with it, too.
constexpr const char* kOn = R"sh(host=$1
shift
TMPDIR=$(dirname "$0")/tmp/$host
export TMPDIR
exec ip netns exec "$host" unshare --uts bash -c 'hostname "$0"; exec bash -c "$*"' "$host" "$@"
)sh";

[[noreturn]] void KeepRoom(const std::string& script, const std::string& log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  execlp("unshare", "unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child",
         "--mount-proc", "bash", script.c_str(), nullptr);
  _exit(127);
}

}  // namespace

TwoHosts::TwoHosts() {
  if (geteuid() != 0) {
    missing_ = "network namespaces need root";
    return;
  }
  for (const char* host : kHosts) fs::create_directories(folder_.path() + "/tmp/" + host);
  folder_.Write("hosts", "127.0.0.1 localhost\n10.77.0.1 hostA\n10.77.0.2 hostB\n");
  folder_.Write("on.sh", kOn);
  folder_.Write("room.sh", kRoom);
  Start();
}

void TwoHosts::Start() {
  const std::string log = folder_.path() + "/room.log";
  room_ = fork();
  if (room_ == 0) KeepRoom(folder_.path() + "/room.sh", log);
  int status = 0;
  const bool over = Eventually([&] {
    if (fs::exists(folder_.path() + "/up")) return true;
    if (waitpid(room_, &status, WNOHANG) == room_) room_ = -1;
    return room_ < 0;
  });
  // A step of the script failed: its last output gives the reason.
  if (room_ < 0 && WIFEXITED(status)) {
    missing_ = "there are no network namespaces here: " + ReadFile(log);
    return;
  }
  const std::vector<pid_t> children = room_ < 0 ? std::vector<pid_t>{} : ChildrenOf(room_);
  if (!over || children.empty()) {
    missing_ = "the room of the two hosts did not come up: " + ReadFile(log);
    ADD_FAILURE() << missing_;
    return;
  }
  init_ = children.front();
  for (size_t i = 0; i < 2; ++i)
    networks_[i] = RunProcess(On(kHosts[i], "readlink -n /proc/self/ns/net")).out;
}

TwoHosts::~TwoHosts() {
  if (room_ < 0) return;
  kill(room_, SIGKILL);
  waitpid(room_, nullptr, 0);
  // The kernel ends the rest one by one; until then they hold files of the folder.
  Eventually([&] { return Processes(kHosts[0]).empty() && Processes(kHosts[1]).empty(); });
}

std::vector<std::string> TwoHosts::Inside(const std::vector<std::string>& words) const {
  std::vector<std::string> command = {
      "/usr/bin/nsenter", "-t", std::to_string(init_), "--mount", "--net", "--pid", "--ipc"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::vector<std::string> TwoHosts::On(const std::string& host, const std::string& command) const {
  return Inside({"bash", folder_.path() + "/on.sh", host, command});
}

std::vector<std::string> TwoHosts::OnBoth(const std::vector<std::string>& command,
                                          const std::string& options, int seconds) const {
  const std::string hosts = folder_.Write("slots", "hostA slots=1\nhostB slots=1\n");
  return On(
      kHosts[0],
      fmt::format("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 10 "
                  "{} mpirun --hostfile {} --map-by ppr:1:node --bind-to none "
                  "--mca plm rsh --mca plm_rsh_agent 'bash {}/on.sh' "
                  "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include {} "
                  "--mca btl_tcp_if_include {} --mca pml ob1 --mca btl self,tcp "
                  "--mca mpi_yield_when_idle 1 {} {}",
                  seconds, hosts, folder_.path(), kNetwork, kNetwork, options, Quoted(command)));
}

std::vector<pid_t> TwoHosts::Processes(const std::string& host, const std::string& word) const {
  const std::string& network = networks_[host == kHosts[1]];
  std::vector<pid_t> found;
  if (network.empty()) return found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code gone;
    if (fs::read_symlink(entry.path() / "ns/net", gone) != network || gone) continue;
    if (testing_util::ProcText(entry.path(), "cmdline").find(word) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

void TwoHosts::Kill(const std::string& host, const std::string& word) const {
  Eventually([&] {
    const std::vector<pid_t> there = Processes(host, word);
    for (const pid_t process : there) kill(process, SIGKILL);
    return there.empty();
  });
}

void TwoHosts::CutWire() const {
  RunProcess(Inside({"ip", "-n", kHosts[0], "link", "set", "cable", "down"}));
}

void TwoHosts::HealWire() const {
  RunProcess(Inside({"ip", "-n", kHosts[0], "link", "set", "cable", "up"}));
  // A refused connection shows that the host is reachable. mpirun hangs when its daemon cannot
  // reach it at first.
  const std::vector<std::string> knock = On(kHosts[0], "timeout 1 bash -c '</dev/tcp/hostB/9'");
  Eventually([&] { return RunProcess(knock).err.find("refused") != std::string::npos; });
}

std::string Quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "'" : " '") + word + "'";
  return text;
}

}  // namespace nxdkit::test
