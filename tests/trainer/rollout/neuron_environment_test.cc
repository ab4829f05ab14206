// The variables removed from the trainer's environment, and each rollout worker's share of them.
#include "trainer/rollout/neuron_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Entries = std::vector<std::string>;

TEST(NeuronEnvironment, IsTakenFromThisProcess) {
  ::setenv("NEURON_COMPILED_ARTIFACTS", "/bundles/a", 1);
  ::setenv("NEURONX_CACHE", "on", 1);
  ::setenv("NEURONAL", "stays", 1);
  EXPECT_THAT(TakeNeuronVariables(),
              ElementsAre("NEURONX_CACHE=on", "NEURON_COMPILED_ARTIFACTS=/bundles/a"));
  EXPECT_EQ(std::getenv("NEURON_COMPILED_ARTIFACTS"), nullptr);
  EXPECT_EQ(std::getenv("NEURONX_CACHE"), nullptr);
  EXPECT_STREQ(std::getenv("NEURONAL"), "stays");
  EXPECT_THAT(TakeNeuronVariables(), ElementsAre());
  ::unsetenv("NEURONAL");
}

// The cores of the seed's configuration: 16 train, 2 workers of 8 generate.
TEST(NeuronEnvironment, EachWorkerSeesItsOwnCores) {
  const CoreSplit split{.train_cores = 16, .train_tp = 8, .workers = 2, .cores_per_worker = 8};
  const struct {
    Entries taken, all;
    const char* first;
    const char* second;
  } rows[] = {
      {{}, {}, "16-23", "24-31"},
      {{"NEURON_CC_FLAGS=-O1", "NEURON_RT_VISIBLE_CORES=32-63"},
       {"NEURON_CC_FLAGS=-O1"},
       "48-55",
       "56-63"},
      {{"NEURON_RT_VISIBLE_CORES=40-55,8,9,10-15,24-31"}, {}, "8-15", "24-31"},
  };
  for (const auto& row : rows) {
    const auto divided = DivideNeuronVariables(row.taken, split);
    ASSERT_TRUE(divided.ok()) << divided.error().ToString();
    EXPECT_EQ(divided->all, row.all);
    const std::string name = "NEURON_RT_VISIBLE_CORES=";
    EXPECT_THAT(divided->of, ElementsAre(Entries{name + row.first}, Entries{name + row.second}));
  }
}

TEST(NeuronEnvironment, RefusesCoresThatAreNoListOrTooFew) {
  const CoreSplit split{.train_cores = 2, .train_tp = 2, .workers = 1, .cores_per_worker = 2};
  const struct {
    const char* cores;
    const char* message;
  } rows[] = {{"", "'' is not a list of cores"},
              {"0-", "'0-' is not a list of cores"},
              {"0,,3", "is not a list of cores"},
              {"0-3x", "is not a list of cores"},
              {"3-0", "is not a list of cores"},
              {"-1", "is not a list of cores"},
              {"0-99999999999999999999", "is not a list of cores"},
              {"9,0,0,2,3", "names core 0 more than once"},
              {"0-3,3-6", "names core 3 more than once"},
              {"0,1,2,0", "names core 0 more than once"},
              {"3-6", "a group of training with tp 2 gets the cores 3-4"},
              {"0,2,4,5", "a group of training with tp 2 gets the cores 0,2"},
              {"0-1,5-6", "a group of rollout with tp 2 gets the cores 5-6"},
              {"0-2", "names 3 cores, the run has 4: 2 of training and 2 of rollout"}};
  for (const auto& row : rows) {
    const auto divided =
        DivideNeuronVariables({std::string("NEURON_RT_VISIBLE_CORES=") + row.cores}, split);
    ASSERT_FALSE(divided.ok()) << row.cores;
    EXPECT_EQ(divided.error().code(), Errc::kUsage);
    EXPECT_EQ(divided.error().member(), "NEURON_RT_VISIBLE_CORES");
    EXPECT_THAT(divided.error().message(), HasSubstr(row.message));
  }
}

TEST(NeuronEnvironment, ARunWithoutDevicesHasNoRules) {
  const CoreSplit split{.train_cores = 1, .train_tp = 1, .workers = 1, .cores_per_worker = 2};
  EXPECT_TRUE(CoresOfRun({}, split, 0).ok());
  const auto unaligned = CoresOfRun({}, split, 32);
  ASSERT_FALSE(unaligned.ok());
  EXPECT_THAT(unaligned.error().message(), HasSubstr("rollout with tp 2 gets the cores 1-2"));
  const auto beyond = CoresOfRun(*ParseGivenCores("30,32-33", std::nullopt), split, 32);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().message(), "names core 33, the instance has cores 0 to 31");
}

// The number of cores: the run begins at 0, and no worker takes cores other than its own.
TEST(NeuronEnvironment, ANumberOfCoresIsReadWhereNoneAreNamed) {
  const CoreSplit split{.train_cores = 8, .train_tp = 8, .workers = 1, .cores_per_worker = 8};
  const auto divided =
      DivideNeuronVariables({"NEURON_CC_FLAGS=-O1", "NEURON_RT_NUM_CORES=16"}, split);
  ASSERT_TRUE(divided.ok()) << divided.error().ToString();
  EXPECT_THAT(divided->all, ElementsAre("NEURON_CC_FLAGS=-O1"));
  EXPECT_THAT(divided->of, ElementsAre(Entries{"NEURON_RT_VISIBLE_CORES=8-15"}));
  EXPECT_TRUE(divided->has_given_cores);
  const auto named =
      DivideNeuronVariables({"NEURON_RT_NUM_CORES=4", "NEURON_RT_VISIBLE_CORES=16-31"}, split);
  ASSERT_TRUE(named.ok()) << named.error().ToString();
  EXPECT_THAT(named->of, ElementsAre(Entries{"NEURON_RT_VISIBLE_CORES=24-31"}));
  for (const char* unset : {"NEURON_RT_NUM_CORES=0", "NEURON_RT_NUM_CORES="}) {
    const auto all = DivideNeuronVariables({unset}, split);
    ASSERT_TRUE(all.ok()) << all.error().ToString();
    EXPECT_FALSE(all->has_given_cores) << unset;
  }
  const struct {
    const char* count;
    int64_t instance_cores;
    const char* message;
  } rows[] = {{"8", 0, "NEURON_RT_NUM_CORES=8 names 8 cores, the run has 16: 8 of training and 8"},
              {"40", 32, "names core 39, the instance has cores 0 to 31"},
              {"all", 0, "'all' is not a number of cores"},
              {"-1", 0, "'-1' is not a number of cores"}};
  for (const auto& row : rows) {
    const auto refused = DivideNeuronVariables({std::string("NEURON_RT_NUM_CORES=") + row.count},
                                               split, row.instance_cores);
    ASSERT_FALSE(refused.ok()) << row.count;
    EXPECT_EQ(refused.error().code(), Errc::kUsage);
    EXPECT_EQ(refused.error().member(), "NEURON_RT_NUM_CORES");
    EXPECT_THAT(refused.error().message(), HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace nxdkit::trainer
