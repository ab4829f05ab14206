// The facts derived from a listing, and the instance that is made from it.
#include "formats/hardware/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/hardware/fit.h"
#include "tests/formats/hardware/captures.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::hardware {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_util::CapturedMachine;
using testing_util::ExpectError;

Instance Made(const Machine& machine) {
  const auto instance = InstanceOf(machine);
  EXPECT_TRUE(instance.ok()) << instance.error().ToString();
  return instance.ok() ? *instance : Instance();
}

TEST(Machine, OfAKnownInstanceIsTheTablesRow) {
  for (const char* name : {"trn1.2xlarge", "trn1.32xlarge", "trn2.3xlarge"}) {
    const Machine machine = CapturedMachine(name);
    EXPECT_THAT(machine.notes, IsEmpty());
    const Instance made = Made(machine);
    const Instance& row = **FindInstance(name);
    EXPECT_EQ(made.name, name);
    EXPECT_EQ(made.platform, row.platform);
    EXPECT_EQ(made.cores, row.cores);
    EXPECT_EQ(made.bytes_per_core(), row.bytes_per_core());
    EXPECT_TRUE(made.sizes_known);
    EXPECT_EQ(std::vector(made.workers.begin(), made.workers.end()),
              std::vector(row.workers.begin(), row.workers.end()));
  }
  EXPECT_EQ(MachineText(CapturedMachine("trn2.48xlarge_lnc2")),
            "trn2.48xlarge (neuron-ls): 16 devices, 64 cores, LNC 2, 24.00 GiB a core");
}

TEST(Machine, AtLnc1HasTwiceTheCoresAndSizesThatNobodyLists) {
  const Instance made = Made(CapturedMachine("trn2.48xlarge_lnc1"));
  EXPECT_EQ(made.cores, 128);
  EXPECT_EQ(made.bytes_per_core(), uint64_t{12} << 30);
  EXPECT_FALSE(made.sizes_known);
  EXPECT_THAT(FitRollout(made, {.tp = 128, .weight_bytes = 1}).problems, IsEmpty());
  EXPECT_THAT(FitRollout(made, {.tp = 129, .weight_bytes = 1}).problems,
              ElementsAre("129 ranks, and trn2.48xlarge has 128 cores"));
  EXPECT_THAT(FitTraining(made, {.tp = 128}).problems, IsEmpty());
}

TEST(Machine, OfNoTableIsUsedByWhatWasRead) {
  const Machine machine = CapturedMachine("trn3");
  const Instance made = Made(machine);
  EXPECT_EQ(made.name, "trn3.example");
  EXPECT_EQ(made.platform, "trn3");
  EXPECT_EQ(made.cores, 16);
  EXPECT_EQ(made.bytes_per_core(), uint64_t{36} << 30);
  EXPECT_FALSE(made.sizes_known);
  EXPECT_THAT(FitRollout(made, {.tp = 16, .weight_bytes = uint64_t{37} << 30}).problems,
              ElementsAre(HasSubstr("more than a core has")));
}

TEST(Machine, AGuessIsSaid) {
  const Machine large = CapturedMachine("older_release");
  EXPECT_EQ(large.instance.value, "trn1.32xlarge");
  EXPECT_EQ(large.instance.by, "a guess");
  EXPECT_EQ(large.guess_basis,
            "16 devices of 2 cores and 32.00 GiB are what trn1.32xlarge, trn1n.32xlarge have");
  NeuronLs one;
  one.devices = {{.number = 0, .cores = 2, .memory_bytes = uint64_t{32} << 30}};
  Machine small = MachineOf(one, "neuron-ls");
  Complete(small);
  EXPECT_EQ(small.instance.value, "trn1.2xlarge") << "one that trains comes first";
  EXPECT_THAT(small.guess_basis, HasSubstr("is what trn1.2xlarge, inf2.xlarge, inf2.8xlarge have"));
  one.devices[0].cores = 3;
  Machine neither = MachineOf(one, "neuron-ls");
  Complete(neither);
  EXPECT_FALSE(neither.instance);
  EXPECT_EQ(Made(neither).name, "a machine with 1 Neuron device of trn1");
}

// A container has some of the devices.
TEST(Machine, HasTheDevicesThatCanBeSeen) {
  NeuronLs some;
  some.instance_type = "trn1.32xlarge";
  for (int64_t i = 0; i < 4; ++i)
    some.devices.push_back({.number = i, .cores = 2, .memory_bytes = uint64_t{32} << 30});
  Machine machine = MachineOf(some, "neuron-ls");
  Complete(machine);
  EXPECT_THAT(machine.notes, ElementsAre("16 devices in the table of instances, 4 seen (a "
                                         "container, or failed devices)"));
  const Instance made = Made(machine);
  EXPECT_EQ(made.cores, 8);
  EXPECT_TRUE(made.sizes_known);
  EXPECT_THAT(made.inference_tp, ElementsAre(1, 2, 8));
  EXPECT_THAT(made.workers, ElementsAre(1, 2, 8));
}

TEST(Machine, TakesFromTheTableWhatNobodyTells) {
  const Machine odd = CapturedMachine("odd_values");
  EXPECT_EQ(odd.cores_per_device.value, 2);
  EXPECT_EQ(odd.cores_per_device.by, "the table of instances");
  EXPECT_EQ(odd.device_bytes.by, "the table of instances");
  EXPECT_EQ(odd.devices.by, "neuron-ls");
  EXPECT_THAT(odd.notes, Contains(HasSubstr("do not all report their memory")));
  EXPECT_EQ(Made(odd).cores, 8);
  Machine unknown;
  unknown.devices = {4, "/dev"};
  EXPECT_TRUE(ExpectError(InstanceOf(unknown), Errc::kUnsupported,
                          "a machine with 4 Neuron devices: how many cores a device has is not "
                          "known"));
}

TEST(Machine, NotesWhatDoesNotAgree) {
  NeuronLs listing;
  listing.instance_type = "trn2.3xlarge";
  listing.devices = {{.number = 0, .cores = 4, .lnc = 1, .memory_bytes = uint64_t{32} << 30},
                     {.number = 1, .cores = 4, .lnc = 1, .memory_bytes = uint64_t{32} << 30}};
  Machine machine = MachineOf(listing, "neuron-ls");
  Complete(machine);
  EXPECT_THAT(machine.notes,
              ElementsAre("trn2.3xlarge has 1 device, and 2 are there",
                          "a device of trn2.3xlarge has 96.00 GiB, but 32.00 GiB are reported here",
                          "LNC 1 does not match 4 cores a device, which has 8 physical cores"));
}

TEST(Machine, ListsAHolderOnceWithItsDevices) {
  const Machine machine = CapturedMachine("trn1.32xlarge");
  ASSERT_THAT(machine.holders, SizeIs(2));
  EXPECT_EQ(machine.holders[0].pid, 4711);
  EXPECT_THAT(machine.holders[0].devices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(machine.holders[1].devices, ElementsAre(5));
}

}  // namespace
}  // namespace nxdkit::hardware
