// slurm-here [COMMAND]: a shell, or a command of it, on the first of two hosts with a real Slurm,
// on this machine alone. For trying tests/cluster by hand. Needs root.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cluster/slurm_cluster.h"
#include "tests/cluster/two_hosts.h"

namespace {

namespace fs = std::filesystem;
using nxdkit::test::SlurmCluster;
using nxdkit::test::TwoHosts;

void WriteCommand(const TwoHosts& hosts, const std::string& name, const std::string& body) {
  fs::permissions(hosts.folder().Write("bin/" + name, "#!/bin/bash\n" + body + "\n"),
                  fs::perms(0755));
}

int RunHere(std::vector<std::string> words) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  const TwoHosts hosts;
  const SlurmCluster slurm(hosts);
  if (!slurm.missing().empty()) {
    fmt::print(stderr, "slurm-here: {}\n", slurm.missing());
    return 3;
  }
  const std::string folder = hosts.folder().path();
  WriteCommand(hosts, "on", "exec bash " + folder + "/on.sh \"$@\"");
  WriteCommand(hosts, "kill-host", "ip netns pids \"$1\" | xargs -r kill -9");
  WriteCommand(hosts, "start-host", "on \"$1\" slurmd -N \"$1\"");
  if (argc < 2)
    fmt::print(
        "Slurm runs on hostA, where this is, and hostB. kill-host hostB: its power fails; "
        "start-host hostB: it is there again;\non hostB COMMAND. It all ends with this shell.\n");
  std::string command = fmt::format(
      "export SLURM_CONF={0}/slurm.conf PATH={0}/bin:$PATH "
      "OMPI_MCA_btl_tcp_if_include={1}; cd '{2}'; ",
      folder, TwoHosts::kNetwork, fs::current_path().string());
  for (int i = 1; i < argc; ++i) command += std::string(argv[i]) + " ";
  if (argc < 2) command += "exec bash --norc";
  return RunHere(hosts.On(TwoHosts::kHosts[0], command));
}
