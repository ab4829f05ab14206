#include "tests/cluster/slurm_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/system/process.h"
#include "tests/lib/eventually.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using testing_util::Eventually;

// Each of these lines was needed:
//   AuthInfo        a munged of our own; a job that is requeued waits until its credential has
//                   expired, two minutes unless it says so
//   TmpFS           two slurmd on one machine would make the same folders in /tmp
//   config_overrides  more CPUs than this machine has
//   linuxproc, task/none, none  without control groups
//   SchedulerParameters, SlurmdTimeout, KillWait  as quick as tests want it
constexpr const char* kConfiguration = R"(ClusterName=nxdkit
SlurmctldHost=hostA
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=pmix
JobRequeue=1
RequeueExit=75
SlurmdTimeout={timeout}
ReturnToService=2
KillWait=3
NodeName=hostA,hostB CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
)";

// Nothing here uses control groups, but slurmd stops if it does not find them.
constexpr const char* kControlGroups = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n";

// The first program that is not installed; "" when all are.
std::string NotInstalled() {
  for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch", "mpirun"})
    if (!FindProgram(program)) return program;
  return "";
}

// "A=1 B=two words C=3", as scontrol prints it: a value ends where the next name begins.
std::map<std::string, std::string> Fields(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::istringstream words(text);
  std::string last;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos)
      fields[last = word.substr(0, equals)] = word.substr(equals + 1);
    else if (!last.empty())
      fields[last] += " " + word;
  }
  return fields;
}

}  // namespace

SlurmCluster::SlurmCluster(const TwoHosts& hosts) : hosts_(hosts), folder_(hosts.folder().path()) {
  missing_ = hosts.missing();
  if (const std::string program = NotInstalled(); missing_.empty() && !program.empty())
    missing_ = program + " is not installed";
  if (!missing_.empty()) return;
  for (const char* made : {"munge", "state", "spool/hostA", "spool/hostB"})
    fs::create_directories(folder_ + "/" + made);
  // munged refuses a folder that others cannot enter.
  fs::permissions(folder_, fs::perms(0755));
  hosts_.folder().Write("munge/key", std::string(64, 'k') + folder_);
  fs::permissions(folder_ + "/munge/key", fs::perms::owner_read | fs::perms::owner_write);
  hosts_.folder().Write("cgroup.conf", kControlGroups);
  hosts_.folder().Write("slurm.conf", fmt::format(kConfiguration, fmt::arg("folder", folder_),
                                                  fmt::arg("timeout", kNodeTimeout)));
  const ProcessResult munged = Run(
      fmt::format("munged --socket={0}/munge/socket --key-file={0}/munge/key "
                  "--pid-file={0}/munge/pid --log-file={0}/munge/log --seed-file={0}/munge/seed",
                  folder_));
  EXPECT_EQ(munged.exit_code, 0) << munged.err;
  StartController("-c");
  for (const char* host : TwoHosts::kHosts) StartNode(host);
  const bool ready = Eventually(30, [&] {
    return StateOfNode(TwoHosts::kHosts[0]) == "IDLE" && StateOfNode(TwoHosts::kHosts[1]) == "IDLE";
  });
  EXPECT_TRUE(ready) << Run("sinfo").err << ReadFile(folder_ + "/slurmctld.log");
}

ProcessResult SlurmCluster::Run(const std::string& command) const {
  return RunProcess(hosts_.On(
      TwoHosts::kHosts[0], fmt::format("export SLURM_CONF={}/slurm.conf; {}", folder_, command)));
}

void SlurmCluster::StartController(const std::string& options) const {
  Run("slurmctld " + options);
}

void SlurmCluster::StartNode(const std::string& host) const {
  RunProcess(
      hosts_.On(host, fmt::format("SLURM_CONF={}/slurm.conf exec slurmd -N {}", folder_, host)));
}

std::string SlurmCluster::Submit(const std::vector<std::string>& command,
                                 const std::vector<std::string>& environment,
                                 const std::string& log) const {
  const ProcessResult sent = Run(fmt::format("env {} sbatch --parsable --chdir={} --output={} {}",
                                             Quoted(environment), folder_, log, Quoted(command)));
  EXPECT_EQ(sent.exit_code, 0) << sent.err;
  return sent.out.substr(0, sent.out.find('\n'));
}

std::map<std::string, std::string> SlurmCluster::Show(const std::string& what) const {
  return Fields(Run("scontrol --oneliner show " + what).out);
}

std::map<std::string, std::string> SlurmCluster::Job(const std::string& job) const {
  return Show("job " + job);
}

int SlurmCluster::RestartsOf(const std::string& job) const {
  return std::atoi(Job(job)["Restarts"].c_str());
}

bool SlurmCluster::ComesTo(const std::string& job, const std::string& state, double seconds) const {
  return Eventually(seconds, [&] { return StateOf(job) == state; });
}

std::string SlurmCluster::StateOfNode(const std::string& host) const {
  return Show("node " + host)["State"];
}

}  // namespace nxdkit::test
