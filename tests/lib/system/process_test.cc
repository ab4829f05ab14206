// Other programs, started and ended; each test leaves no process behind.
#include "lib/system/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/system/child.h"
#include "tests/lib/processes.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

using testing_util::Runs;
using Time = Process::Time;

constexpr Time kLong{60'000};

// A shell with the script, its output in a pipe.
class Shell {
 public:
  explicit Shell(const std::string& script, std::vector<std::string> environment = {}) {
    Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    Result<PipeEnds> pipe = MakePipe();
    EXPECT_TRUE(pipe.ok());
    Result<Process> started = Process::Start({.program = "/bin/sh",
                                              .words = {"sh", "-c", script},
                                              .environment = std::move(environment),
                                              .in = null.fd(),
                                              .out = pipe->write.fd(),
                                              .err = null.fd()});
    EXPECT_TRUE(started.ok()) << started.error().ToString();
    out_ = std::move(pipe->read);
    process_ = std::move(started).value();
  }
  Process& process() { return *process_; }
  // Up to the next line feed or the end.
  std::string Line() {
    std::string line;
    for (char c = 0; ::read(out_.fd(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  std::optional<Process> process_;
  Descriptor out_;
};

class Processes : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left, dead or alive";
    EXPECT_EQ(errno, ECHILD);
  }
};

TEST_F(Processes, GetNoDescriptorOfOurs) {
  const Descriptor ours(::open("/dev/null", O_RDONLY));
  ASSERT_EQ(::fcntl(ours.fd(), F_GETFD), 0);  // as libraries open them: for children too
  Shell shell("[ -e /proc/$$/fd/" + std::to_string(ours.fd()) + " ] && echo there || echo closed");
  EXPECT_EQ(shell.Line(), "closed");
}

// As Slurm sends it to every process of a step to request a checkpoint.
TEST_F(Processes, ThoseThatWeStartLiveOnAtSigusr1) {
  Shell shell("kill -USR1 $$; echo alive");
  EXPECT_EQ(shell.Line(), "alive");
  shell.process().Kill();
}

TEST_F(Processes, GetTheirWordsAndTheirEnvironment) {
  Shell shell("echo \"$0 $A_NAME $HOME.\"", {"A_NAME=a value"});
  EXPECT_EQ(shell.Line(), "sh a value .");
  EXPECT_TRUE(shell.process().WaitForEnd(kLong));
  shell.process().Kill();
  EXPECT_EQ(shell.process().exit_code(), 0);
}

TEST_F(Processes, TellHowTheyEnded) {
  Shell three("exit 3");
  EXPECT_TRUE(three.process().WaitForEnd(kLong));
  three.process().End(kLong);
  EXPECT_EQ(three.process().exit_code(), 3);
  EXPECT_EQ(three.process().EndText(), "exited with 3");
  Shell killed("kill -9 $$");
  EXPECT_TRUE(killed.process().WaitForEnd(kLong));
  killed.process().Kill();
  EXPECT_EQ(killed.process().exit_code(), 137);
  EXPECT_EQ(killed.process().EndText(), "was killed by signal 9");
}

TEST_F(Processes, AreWaitedForNoLongerThanAsked) {
  Shell shell("echo started; exec sleep 1000");
  EXPECT_EQ(shell.Line(), "started");
  EXPECT_FALSE(shell.process().WaitForEnd(Time(1)));
  EXPECT_FALSE(shell.process().HasEnded());
}

TEST_F(Processes, AreAskedFirst) {
  Shell shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(shell.Line(), "ready");
  shell.process().End(kLong);
  EXPECT_EQ(shell.process().exit_code(), 7);
}

TEST_F(Processes, AreKilledWhenTheyDoNotListen) {
  Shell shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(shell.Line(), "ready");
  shell.process().End(Time(20));
  EXPECT_EQ(shell.process().exit_code(), 128 + SIGKILL);
}

TEST_F(Processes, TakeWhatTheyLeftRunningWithThem) {
  Shell shell("sleep 1000 >/dev/null & echo $!");
  const pid_t left = std::stoi(shell.Line());
  EXPECT_TRUE(shell.process().WaitForEnd(kLong));
  EXPECT_TRUE(Runs(left));
  shell.process().End(kLong);
  EXPECT_FALSE(Runs(left));
}

// A session of its own takes a process out of the group, and a parent that ends orphans its
// descendants.
TEST_F(Processes, TakeWhatMadeItselfASessionWithThem) {
  Shell shell(
      "setsid sh -c 'sleep 1000 & echo $!' < /dev/null 2> /dev/null; "
      "env -i /bin/sh -c 'setsid sleep 1000 > /dev/null & echo $!; wait'");
  const pid_t orphan = std::stoi(shell.Line());
  const pid_t unmarked = std::stoi(shell.Line());
  EXPECT_TRUE(Runs(orphan));
  EXPECT_TRUE(Runs(unmarked));
  shell.process().End(Time(0));
  EXPECT_FALSE(Runs(orphan));
  EXPECT_FALSE(Runs(unmarked));
}

TEST_F(Processes, TakeASessionWithThemAlsoWhenTheyHaveEnded) {
  Shell shell("setsid sh -c 'sleep 1000 > /dev/null & echo $!'");
  const pid_t left = std::stoi(shell.Line());
  EXPECT_TRUE(shell.process().WaitForEnd(kLong));
  EXPECT_TRUE(Runs(left));
  shell.process().Kill();
  EXPECT_FALSE(Runs(left));
  EXPECT_EQ(shell.process().exit_code(), 0);
}

// Processes started by others are not ended, in the same session or not.
TEST_F(Processes, LeaveTheFamiliesOfOthersAlone) {
  Shell other("setsid sleep 1000 > /dev/null & echo $!; wait");
  const pid_t left = std::stoi(other.Line());
  {
    Shell shell("setsid sleep 1000 > /dev/null & echo $!; wait");
    EXPECT_NE(shell.Line(), "");
  }
  EXPECT_TRUE(Runs(left));
  other.process().Kill();
  EXPECT_FALSE(Runs(left));
}

TEST_F(Processes, ThatCannotBeStartedAreNamed) {
  const auto missing = Process::Start({.program = "/no/such", .words = {"such"}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Errc::kNotFound);
  EXPECT_EQ(missing.error().file(), "/no/such");
  EXPECT_EQ(missing.error().message(), "cannot start it: No such file or directory");
  const auto folder = Process::Start({.program = "/", .words = {"/"}});
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().message(), "cannot start it: Permission denied");
}

// Returns the exit code of the body, run in a child of ours.
int InAChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Killed, as by the system when memory runs out: there is nobody to end the children.
TEST_F(Processes, ThatWereTalkedToEndWithUsInWhateverSession) {
  Result<PipeEnds> tell = MakePipe();
  ASSERT_TRUE(tell.ok());
  EXPECT_EQ(InAChild([&] {
              const std::string script = "setsid sleep 1000 > /dev/null 2>&1 & echo $!; read line";
              Result<Child> child = StartChild({.program = "/bin/sh",
                                                .words = {"sh", "-c", script},
                                                .environment = WholeEnvironment()});
              if (!child.ok()) return 100;
              pollfd waiting{child->out.fd(), POLLIN, 0};
              char number[32];
              if (::poll(&waiting, 1, 60'000) != 1) return 101;
              const auto said = ReadSome(child->out, number);
              if (!said || WriteQuietly(tell->write.fd(), *said) <= 0) return 102;
              ::_exit(7);  // no clean-up
            }),
            7);
  char number[32] = "";
  ASSERT_GT(::read(tell->read.fd(), number, sizeof number - 1), 0);
  const pid_t left = std::atoi(number);
  EXPECT_TRUE(testing_util::Ends(left));
}

// Then pipes get the numbers of the standard streams.
TEST_F(Processes, CanBeStartedWithOurOwnStreamsClosed) {
  EXPECT_EQ(InAChild([] {
              for (const int fd : {0, 1, 2}) ::close(fd);
              Result<PipeEnds> in = MakePipe();
              Result<PipeEnds> out = MakePipe();
              if (!in.ok() || !out.ok() || in->read.fd() != 0) return 100;
              Result<Process> cat = Process::Start({.program = "/bin/cat",
                                                    .words = {"cat"},
                                                    .in = in->read.fd(),
                                                    .out = out->write.fd(),
                                                    .err = out->write.fd()});
              if (!cat.ok()) return 101;
              if (WriteQuietly(in->write.fd(), "x") != 1) return 102;
              in->write.Close();
              out->write.Close();
              char c = 0;
              if (::read(out->read.fd(), &c, 1) != 1 || c != 'x') return 103;
              if (::read(out->read.fd(), &c, 1) != 0) return 104;
              if (!cat->WaitForEnd(kLong)) return 105;
              cat->Kill();
              return cat->exit_code();
            }),
            0);
}

// The parent of this process may ignore SIGCHLD: the kernel then keeps no exit codes.
TEST_F(Processes, ThatTheKernelReapsHaveEndedButNotWell) {
  EXPECT_EQ(InAChild([] {
              ::signal(SIGCHLD, SIG_IGN);
              Result<Process> process = Process::Start({.program = "/bin/true", .words = {"true"}});
              if (!process.ok()) return 100;
              if (!process->WaitForEnd(kLong)) return 101;
              process->Kill();
              return process->exit_code();
            }),
            255);
}

TEST_F(Processes, NobodyReadsAndNoSignalComes) {
  Result<PipeEnds> pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  pipe->read.Close();
  EXPECT_EQ(WriteQuietly(pipe->write.fd(), "x"), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(Processes, AreFoundByNameOrPath) {
  EXPECT_EQ(FindProgram("/bin/sh"), "/bin/sh");
  EXPECT_TRUE(FindProgram("sh").has_value());
  EXPECT_EQ(FindProgram("no-such-program"), std::nullopt);
  EXPECT_EQ(FindProgram("/"), std::nullopt);
}

// The working directory may be anybody's: a program in it runs only when it is named by a path.
TEST_F(Processes, AreNotFoundInTheWorkingDirectoryByChance) {
  const testing_util::TempFolder folder;
  const std::string program = folder / "a-program";
  std::ofstream(program) << "#!/bin/sh\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = EnvironmentValue("PATH");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const char* list : {".", "", ":", "/nowhere::/nowhere", "./"}) {
    ::setenv("PATH", list, 1);
    EXPECT_EQ(FindProgram("a-program"), std::nullopt) << list;
  }
  EXPECT_EQ(FindProgram("./a-program"), "./a-program");
  ::setenv("PATH", (".:" + folder.path()).c_str(), 1);
  EXPECT_EQ(FindProgram("a-program"), program);
  ::setenv("PATH", path.c_str(), 1);
  std::filesystem::current_path(here);
}

TEST_F(Processes, OfOurChoiceGetNoPlacesOfTheWorkingDirectory) {
  EXPECT_EQ(WithoutRelativePlaces(
                {"PATH=.:/bin::lib:/usr/bin:", "LD_LIBRARY_PATH=:/a:", "PYTHONPATH=.", "X=:"}),
            (std::vector<std::string>{"PATH=/bin:/usr/bin", "LD_LIBRARY_PATH=/a", "PYTHONPATH=.",
                                      "X=:"}));
  EXPECT_EQ(WithoutRelativePlaces({"LD_LIBRARY_PATH=.", "A=b"}), (std::vector<std::string>{"A=b"}))
      << "an empty one is the working directory";
}

}  // namespace
}  // namespace nxdkit
