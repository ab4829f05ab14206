// The sources of facts about this machine, in order, and the error of each: a neuron-ls of a few
// lines of shell, and a folder in place of "/".
#include "formats/hardware/read_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/stopwatch.h"
#include "tests/formats/hardware/captures.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/processes.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::hardware {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing_util::ExpectError;

// Sets a variable, and restores it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class ReadMachineTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  // A neuron-ls in PATH, of bash.
  void Script(const std::string& body, const std::string& name = "bin/neuron-ls") const {
    const std::string path = Write(name, "#!/bin/bash\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  void Kernel(const std::string& product, int devices) const {
    if (!product.empty()) Write("root/sys/devices/virtual/dmi/id/product_name", product + "\n");
    for (int i = 0; i < devices; ++i) Write("root/dev/neuron" + std::to_string(i), "");
    Write("root/dev/neuron_rdma", "");
    Write("root/proc/devices", "Character devices:\n  1 mem\n245 neuron\n");
  }
  Machine Read(std::chrono::milliseconds most = std::chrono::seconds(20)) const {
    const auto machine = ReadMachine({.root = folder_.path() + "/root", .most = most});
    EXPECT_TRUE(machine.ok()) << machine.error().ToString();
    return machine.ok() ? *machine : Machine();
  }
  const testing_util::TempFolder folder_;
  const Variable path_{"PATH", folder_.path() + "/bin:" + std::getenv("PATH")};
  const Variable visible_{kVisibleCores, ""};
  const Variable count_{kNumberOfCores, ""};
};

TEST_F(ReadMachineTest, NeuronLsOfPathIsAskedFirst) {
  Script("[ \"$*\" = --json-output ] && cat " + testing_util::CapturePath("trn1.32xlarge"));
  Script("exit 9", "root/opt/aws/neuron/bin/neuron-ls");
  Kernel("trn2.48xlarge", 3);
  const Machine machine = Read();
  EXPECT_EQ(machine.instance.value, "trn1.32xlarge");
  EXPECT_EQ(machine.instance.by, "neuron-ls");
  EXPECT_EQ(machine.cores(), 32);
  EXPECT_THAT(machine.asked, ElementsAre(HasSubstr("/bin/neuron-ls: 16 devices")));
}

TEST_F(ReadMachineTest, ThenThatOfTheVendorsFolder) {
  Script("cat " + testing_util::CapturePath("trn2.3xlarge"), "root/opt/aws/neuron/bin/neuron-ls");
  const Machine machine = Read();
  EXPECT_EQ(machine.instance.value, "trn2.3xlarge");
  EXPECT_THAT(machine.asked, ElementsAre("neuron-ls: not in PATH", HasSubstr(": 1 device")));
}

TEST_F(ReadMachineTest, ThenTheKernel) {
  Kernel("trn1.32xlarge", 16);
  const Machine machine = Read();
  EXPECT_EQ(machine.instance.by, "dmi");
  EXPECT_EQ(machine.devices.value, 16);
  EXPECT_EQ(machine.devices.by, "/dev");
  EXPECT_EQ(machine.cores(), 32);
  EXPECT_EQ(machine.core_bytes(), uint64_t{16} << 30);
  EXPECT_FALSE(machine.tells_holders);
}

TEST_F(ReadMachineTest, CoresOfSysfsArePhysicalOnes) {
  Kernel("", 2);
  for (const char* place : {"root/sys/class/neuron_device/neuron0/core_count",
                            "root/sys/devices/virtual/neuron_device/neuron0/core_count"}) {
    Write(place, "8\n");
    EXPECT_EQ(Read().cores(), 8);
    const Variable lnc("NEURON_LOGICAL_NC_CONFIG", "1");
    const Machine one = Read();
    EXPECT_EQ(one.cores(), 16);
    EXPECT_EQ(one.lnc.by, "NEURON_LOGICAL_NC_CONFIG");
    fs::remove(fs::path(folder_.path()) / place);
  }
  Write("root/sys/class/neuron_device/neuron0/core_count", "many\n");
  EXPECT_EQ(Read().cores(), 0);
}

TEST_F(ReadMachineTest, EachFailureIsToldAndTheKernelAsked) {
  Kernel("trn1.2xlarge", 1);
  const struct {
    const char* script;
    const char* said;
  } rows[] = {{"exit 0", "it is empty"},
              {"echo 'no driver loaded' >&2; exit 1",
               "it exited with 1; its standard error: no driver loaded"},
              {"kill -9 $$", "it was killed by signal 9"},
              {"echo '[{\"neuron_device\": 0'", "line 2"},
              {"echo '[{\"neuron_device\": 0,]'", "line 1"},
              {"echo '{\"error\": \"none\"}'", "the JSON is an object"},
              {"echo '[]'", "it lists no devices"},
              {"exec head -c 100000000 /dev/zero", "it prints more than 4194304 bytes"},
              {"exec yes", "it prints more than 4194304 bytes"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.script);
    Script(row.script);
    const Machine machine = Read();
    EXPECT_EQ(machine.instance.by, "dmi");
    ASSERT_FALSE(machine.asked.empty());
    EXPECT_THAT(machine.asked[0], AllOf(HasSubstr("/bin/neuron-ls: "), HasSubstr(row.said)));
    EXPECT_EQ(machine.cores(), 2);
  }
}

TEST_F(ReadMachineTest, OneThatMayNotBeExecutedIsNamed) {
  Write("bin/neuron-ls", "#!/bin/bash\n");
  Write("root/opt/aws/neuron/bin/neuron-ls", "#!/bin/bash\n");
  const Machine machine = Read();
  EXPECT_FALSE(machine.has_devices());
  ASSERT_EQ(machine.asked.size(), 4u);
  EXPECT_THAT(machine.asked[0], HasSubstr("/bin/neuron-ls: it may not be executed"));
  EXPECT_THAT(machine.asked[1], HasSubstr("/opt/aws/neuron/bin/neuron-ls: it may not be executed"));
  EXPECT_THAT(machine.asked[2], HasSubstr("/product_name: says nothing"));
  EXPECT_THAT(machine.asked[3], HasSubstr("/dev/neuron*: 0 devices"));
}

// It is ended, together with its children.
TEST_F(ReadMachineTest, OneThatHangsIsEndedWithAllItStarted) {
  Script("sleep 1000 & echo $! > " + folder_.path() + "/pid; echo waiting >&2; wait");
  const Stopwatch watch;
  const Machine machine = Read(std::chrono::seconds(1));
  EXPECT_LT(watch.Seconds(), 15);
  EXPECT_THAT(machine.asked[0],
              HasSubstr("it has not ended after 1 seconds; its standard error: waiting"));
  std::ifstream file(folder_.path() + "/pid");
  pid_t pid = 0;
  ASSERT_TRUE(file >> pid);
  EXPECT_TRUE(testing_util::Ends(pid)) << pid;
}

TEST_F(ReadMachineTest, AnInterruptionEndsTheProgram) {
  Script("sleep 1000");
  const auto stopped = ReadMachine({.root = folder_.path(), .poll = [] {
                                      return Status(Error(Errc::kInterrupted, "stopped"));
                                    }});
  EXPECT_TRUE(ExpectError(stopped, Errc::kInterrupted, "stopped"));
}

TEST_F(ReadMachineTest, FilesWithoutADriverAreNoDevices) {
  Kernel("trn1.2xlarge", 1);
  Write("root/proc/devices", "  1 mem\n");
  const Machine machine = Read();
  EXPECT_FALSE(machine.has_devices());
  EXPECT_THAT(machine.notes, Contains(HasSubstr("no driver that serves them")));
}

TEST_F(ReadMachineTest, TheKernelNamesWhatAnOlderReleaseDoesNot) {
  Script("cat " + testing_util::CapturePath("older_release"));
  Kernel("trn1n.32xlarge", 0);
  const Machine machine = Read();
  EXPECT_EQ(machine.instance.value, "trn1n.32xlarge");
  EXPECT_EQ(machine.instance.by, "dmi");
  EXPECT_EQ(machine.guess_basis, "");
}

TEST_F(ReadMachineTest, TellsTheCoresOfThisProcess) {
  Script("cat " + testing_util::CapturePath("trn1.32xlarge"));
  const Variable visible(kVisibleCores, "0,2,5-7");
  EXPECT_THAT(*Read().given.visible, ElementsAre(0, 2, 5, 6, 7));
  const Variable wrong(kVisibleCores, "0-");
  const Machine machine = Read();
  EXPECT_FALSE(machine.given.any());
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("'0-' is not a list of cores")));
}

TEST_F(ReadMachineTest, IsOnlyWorthwhileWhereTheKernelTellsOfDevices) {
  const std::string root = folder_.path() + "/root";
  Kernel("", 0);
  EXPECT_FALSE(MayHaveDevices(root));
  for (const char* other : {"m5.large", "info.box", "trn", "trn1"}) {
    Kernel(other, 0);
    EXPECT_FALSE(MayHaveDevices(root)) << other;
  }
  Kernel("m5.large", 1);
  EXPECT_TRUE(MayHaveDevices(root));
  fs::remove(root + "/dev/neuron0");
  EXPECT_FALSE(MayHaveDevices(root));
  Kernel("trn2.48xlarge", 0);
  EXPECT_TRUE(MayHaveDevices(root));
}

TEST(MachineOfCaptureTest, NamesTheFile) {
  EXPECT_TRUE(ExpectError(MachineOfCapture("no/such.json"), Errc::kNotFound, "open"));
  const testing_util::TempFolder folder;
  const std::string path = folder.path() + "/cut.json";
  std::ofstream(path) << "[{";
  const auto error = ExpectError(MachineOfCapture(path), Errc::kCorrupt, "line 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path);
}

}  // namespace
}  // namespace nxdkit::hardware
