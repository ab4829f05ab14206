// --instance: a name of the table, this machine, a capture; and a machine other than the one a run
// is meant for.
#include "formats/hardware/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/hardware/captures.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::hardware {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::CapturedMachine;
using testing_util::CapturePath;
using testing_util::ExpectError;

TEST(ResolveInstance, KnowsWordsFromFiles) {
  EXPECT_TRUE(IsReadInstance("auto"));
  EXPECT_TRUE(IsReadInstance("./capture"));
  EXPECT_TRUE(IsReadInstance("capture.json"));
  EXPECT_FALSE(IsReadInstance("trn1.32xlarge"));
  EXPECT_FALSE(IsReadInstance("Auto"));
}

TEST(ResolveInstance, ANameIsOfTheTable) {
  const auto found = ResolveInstance("trn1.32xlarge", {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->instance.cores, 32);
  EXPECT_FALSE(found->machine);
  EXPECT_THAT(found->notes, IsEmpty());
  EXPECT_TRUE(
      ExpectError(ResolveInstance("trn1.33xlarge", {}), Errc::kUsage, "is not an instance"));
  EXPECT_THAT(ResolveInstance("trn1.33xlarge", {}).error().hint(), HasSubstr("trn1.32xlarge"));
}

TEST(ResolveInstance, HintsAtWhatALikeNameMeans) {
  EXPECT_EQ(ResolveInstance("AUTO", {}).error().hint(), "did you mean auto?");
  const testing_util::TempFolder folder;
  testing_util::WriteText(folder / "capture.txt", "[]");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto refused = ResolveInstance("capture.txt", {});
  std::filesystem::current_path(before);
  ASSERT_TRUE(ExpectError(refused, Errc::kUsage, "is not an instance"));
  EXPECT_EQ(refused.error().hint(), "did you mean the file? ./capture.txt names it");
}

TEST(ResolveInstance, AFileIsRead) {
  const auto known = ResolveInstance(CapturePath("trn1.2xlarge"), {});
  ASSERT_TRUE(known.ok()) << known.error().ToString();
  EXPECT_EQ(known->instance.cores, 2);
  EXPECT_THAT(known->notes,
              ElementsAre("trn1.2xlarge (neuron-ls): 1 device, 2 cores, 16.00 GiB a core"));
  const auto guessed = ResolveInstance(CapturePath("older_release"), {});
  ASSERT_TRUE(guessed.ok()) << guessed.error().ToString();
  EXPECT_THAT(guessed->notes, ElementsAre(HasSubstr("(a guess)"), HasSubstr("is a guess: 16")));
  const auto unlisted = ResolveInstance(CapturePath("trn2.48xlarge_lnc1"), {});
  ASSERT_TRUE(unlisted.ok()) << unlisted.error().ToString();
  EXPECT_THAT(unlisted->notes,
              ElementsAre(HasSubstr("128 cores, LNC 1, 12.00 GiB a core"),
                          HasSubstr("sizes of trn2.48xlarge at LNC 1 are not known")));
  EXPECT_TRUE(ExpectError(ResolveInstance("no/such.json", {}), Errc::kNotFound, "open"));
}

TEST(ResolveInstance, AutoWithoutDevicesListsWhatWasAsked) {
  const testing_util::TempFolder empty;
  const auto error = ExpectError(ResolveInstance("auto", {.root = empty.path()}), Errc::kUsage,
                                 "--instance auto: there are no Neuron devices here; ");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(),
              AllOf(HasSubstr("neuron-ls"), HasSubstr("/opt/aws/neuron/bin/neuron-ls: not there"),
                    HasSubstr("product_name: says nothing"), HasSubstr("/dev/neuron*: 0 devices")));
  EXPECT_THAT(error->hint(), HasSubstr("--instance trn1.32xlarge"));
}

TEST(MachineHere, IsNotAskedWhereTheKernelTellsOfNone) {
  const testing_util::TempFolder empty;
  const auto here = MachineHere({.root = empty.path()});
  ASSERT_TRUE(here.ok());
  EXPECT_FALSE(*here);
}

std::vector<std::string> Of(const Machine& machine, const char* asked, int64_t cores) {
  return Disagreements(machine, {.asked = asked ? *FindInstance(asked) : nullptr, .cores = cores});
}

TEST(Disagreements, WithTheInstanceThatWasAskedFor) {
  EXPECT_THAT(
      Of(CapturedMachine("trn1.2xlarge"), "trn1.32xlarge", 2),
      ElementsAre("trn1.32xlarge was requested, and this machine is trn1.2xlarge with 2 cores"));
  EXPECT_THAT(Of(CapturedMachine("trn1.2xlarge"), "trn1.2xlarge", 2), IsEmpty());
  EXPECT_THAT(Of(CapturedMachine("trn2.48xlarge_lnc1"), "trn2.48xlarge", 64),
              ElementsAre("trn2.48xlarge has 64 cores, and of this machine 128 can be used",
                          "this machine is set to LNC 1: a device has 8 cores, and the plan is "
                          "for 4"));
  EXPECT_THAT(Of(CapturedMachine("older_release"), "trn1n.32xlarge", 32), IsEmpty())
      << "as good a guess";
  EXPECT_THAT(Of(CapturedMachine("older_release"), "trn2.48xlarge", 0),
              ElementsAre("trn2.48xlarge was requested, and this machine is trn1.32xlarge with 32 "
                          "cores, as far as can be guessed"));
}

TEST(Disagreements, WithTheCoresOfTheRun) {
  Machine machine = CapturedMachine("trn1.2xlarge");
  EXPECT_THAT(Of(machine, nullptr, 32),
              ElementsAre("the run is for 32 cores, and trn1.2xlarge has 2"));
  machine = CapturedMachine("trn2.3xlarge");
  machine.given = *ParseGivenCores("0-1", std::nullopt);
  EXPECT_THAT(Of(machine, nullptr, 4),
              ElementsAre("the run is for 4 cores, and NEURON_RT_VISIBLE_CORES=0-1 leaves it 2"));
  machine.given = *ParseGivenCores("2-5", std::nullopt);
  EXPECT_THAT(Of(machine, nullptr, 4),
              ElementsAre("NEURON_RT_VISIBLE_CORES=2-5 names core 5, and the cores here are 0 to "
                          "3"));
  EXPECT_THAT(Of(machine, nullptr, 0), IsEmpty());
}

TEST(Disagreements, WithThoseWhoHoldTheDevices) {
  EXPECT_THAT(Of(CapturedMachine("trn1.32xlarge"), "trn1.32xlarge", 32),
              ElementsAre("devices are held by other processes: pid 4711 (/opt/venv/bin/python3 "
                          "train.py --nproc 8) on 0, 1, 2, 3, pid 4712 (vllm serve model) on 5"));
}

}  // namespace
}  // namespace nxdkit::hardware
