// --part auto: the variables that each launcher sets, by its documentation or source.
#include "tools/conversions/launcher.h"

#include <gtest/gtest.h>

#include "tests/lib/expect_error.h"

namespace nxdkit::tool {
namespace {

using testing_util::ExpectError;

struct LauncherCase {
  const char* name;
  Environment environment;
  int index, count;
  const char* error = "";
  bool by_hand = false;
};

class LauncherTest : public ::testing::TestWithParam<LauncherCase> {};

TEST_P(LauncherTest, SaysWhichPart) {
  const LauncherCase& c = GetParam();
  const Result<ops::Part> part = PartOf("auto", c.environment);
  if (*c.error != '\0') {
    EXPECT_TRUE(ExpectError(part, Errc::kUsage, c.error));
    return;
  }
  ASSERT_TRUE(part.ok()) << part.error().ToString();
  EXPECT_EQ(part->index, c.index);
  EXPECT_EQ(part->count, c.count);
  EXPECT_EQ(part->numbered, !c.by_hand) << "the pods of two tasks have one index";
}

// A pod of torchx on Volcano: one task for each replica, so VC_TASK_INDEX is 0 in all of them.
Environment TorchX(const std::string& host) {
  return {{"VC_TASK_INDEX", "0"},    {"VK_TASK_INDEX", "0"},
          {"VC_TRAINER_0_NUM", "1"}, {"VC_TRAINER_0_HOSTS", "app-trainer-0-0.app"},
          {"VC_TRAINER_1_NUM", "1"}, {"VC_TRAINER_1_HOSTS", "app-trainer-1-0.app"},
          {"VC_TRAINER_2_NUM", "1"}, {"VC_TRAINER_2_HOSTS", "app-trainer-2-0.app"},
          {"HOSTNAME", host}};
}

const LauncherCase kCases[] = {
    {"ByHandWins",
     {{"PART_INDEX", "1"}, {"PART_COUNT", "4"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}},
     1,
     4,
     "",
     true},
    {"Torchrun",
     {{"RANK", "5"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"GROUP_RANK", "1"},
      {"TORCHELASTIC_RUN_ID", "x"}},
     5,
     8},
    {"KubeflowMaster", {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}}, 0, 3},
    {"VolcanosPluginPytorch", {{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"VC_TASK_INDEX", "1"}}, 2, 3},
    {"TorchrunInATorchXPod",
     {{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"VC_TASK_INDEX", "0"},
      {"VC_T_0_NUM", "1"},
      {"VC_T_1_NUM", "1"}},
     3,
     4},
    {"RankWithoutAWorldSaysNothing", {{"RANK", "1"}}, 0, 0, "no launcher says"},
    {"RankOutsideOfTheWorld",
     {{"RANK", "2"}, {"WORLD_SIZE", "2"}},
     0,
     0,
     "RANK: part 2 of 2 does not exist"},
    {"OpenMpi", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, 1, 2},
    {"Pmi", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2},
    {"PmiWithoutASize", {{"PMI_RANK", "0"}}, 0, 0, "PMI_SIZE is not set"},
    {"NotANumber", {{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}, 0, 0, "PMI_RANK=x is not a number"},
    {"SlurmStep",
     {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}},
     3,
     4},
    {"SlurmBatchScript", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, 0, 0, "no launcher says"},
    {"SlurmArray",
     {{"SLURM_ARRAY_TASK_ID", "6"},
      {"SLURM_ARRAY_TASK_MIN", "4"},
      {"SLURM_ARRAY_TASK_MAX", "8"},
      {"SLURM_ARRAY_TASK_STEP", "2"},
      {"SLURM_ARRAY_TASK_COUNT", "3"}},
     1,
     3},
    {"TorchrunInASlurmArray",
     {{"SLURM_ARRAY_TASK_ID", "1"},
      {"SLURM_ARRAY_TASK_MIN", "0"},
      {"SLURM_ARRAY_TASK_MAX", "1"},
      {"SLURM_ARRAY_TASK_COUNT", "2"},
      {"RANK", "1"},
      {"WORLD_SIZE", "4"}},
     5,
     8},
    {"BatchArray", {{"AWS_BATCH_JOB_ARRAY_INDEX", "2"}, {"AWS_BATCH_JOB_ARRAY_SIZE", "5"}}, 2, 5},
    {"MpiInABatchArray",
     {{"AWS_BATCH_JOB_ARRAY_INDEX", "1"},
      {"AWS_BATCH_JOB_ARRAY_SIZE", "2"},
      {"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"}},
     3,
     4},
    {"BatchNode", {{"AWS_BATCH_JOB_NODE_INDEX", "1"}, {"AWS_BATCH_JOB_NUM_NODES", "2"}}, 1, 2},
    {"TorchrunOnBatchNodesSpansThem",
     {{"AWS_BATCH_JOB_NODE_INDEX", "1"},
      {"AWS_BATCH_JOB_NUM_NODES", "2"},
      {"RANK", "7"},
      {"WORLD_SIZE", "8"}},
     7,
     8},
    {"IndexedJob", {{"JOB_COMPLETION_INDEX", "3"}, {"PART_COUNT", "4"}}, 3, 4},
    {"IndexedJobWithoutACount", {{"JOB_COMPLETION_INDEX", "3"}}, 0, 0, "PART_COUNT is not set"},
    {"TorchrunInAnIndexedJobSpansIt",
     {{"JOB_COMPLETION_INDEX", "1"}, {"PART_COUNT", "2"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}},
     3,
     4},
    {"VolcanoByHand", {{"VC_TASK_INDEX", "0"}, {"PART_COUNT", "4"}}, 0, 4, "", true},
    {"ByHandInAPodOfTorchX",
     {{"VC_TASK_INDEX", "0"}, {"PART_COUNT", "4"}, {"TORCHX_IMAGE", "nxdkit:latest"}},
     0,
     0,
     "TorchX makes a task of each replica: VC_TASK_INDEX=0 is 0 in all pods"},
    // Two tasks of two pods: pod 0 of both would be part 0.
    {"ACountOfMoreThanTheOwnTask",
     {{"VC_TASK_INDEX", "0"},
      {"PART_COUNT", "4"},
      {"HOSTNAME", "job-b-0"},
      {"VC_A_NUM", "2"},
      {"VC_A_HOSTS", "job-a-0.job,job-a-1.job"},
      {"VC_B_NUM", "2"},
      {"VC_B_HOSTS", "job-b-0.job,job-b-1.job"}},
     0,
     0,
     "PART_COUNT=4, and by the job's VC_ variables this is pod 0 of 2"},
    {"PartCountMakesNoPartOfAReplica",
     [] {
       Environment environment = TorchX("app-trainer-1-0");
       environment["PART_COUNT"] = "3";
       return environment;
     }(),
     1, 3},
    {"AnotherLaunchersNonsenseIsNotRead",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PMI_RANK", "x"}, {"PMI_SIZE", "2"}},
     1,
     2},
    {"VolcanoWithOneTask", {{"VC_TASK_INDEX", "2"}, {"VC_WORKER_NUM", "4"}}, 2, 4},
    {"VolcanoFindsItsTaskByTheHost",
     {{"VC_TASK_INDEX", "1"},
      {"HOSTNAME", "job-worker-1"},
      {"VC_MASTER_NUM", "1"},
      {"VC_MASTER_HOSTS", "job-master-0.job"},
      {"VC_WORKER_NUM", "3"},
      {"VC_WORKER_HOSTS", "job-worker-0.job,job-worker-1.job,job-worker-2.job"}},
     1,
     3},
    {"VolcanosMasterBesideWorkers",
     {{"VC_TASK_INDEX", "0"},
      {"HOSTNAME", "job-master-0"},
      {"VC_MASTER_NUM", "1"},
      {"VC_MASTER_HOSTS", "job-master-0.job"},
      {"VC_WORKER_NUM", "2"},
      {"VC_WORKER_HOSTS", "job-worker-0.job,job-worker-1.job"}},
     0,
     0,
     "counts the one pod of MASTER alone"},
    {"VolcanoAlone", {{"VC_TASK_INDEX", "1"}}, 0, 0, "alone does not say of how many"},
    {"TorchXReplica0", TorchX("app-trainer-0-0"), 0, 3},
    {"TorchXReplica2", TorchX("app-trainer-2-0"), 2, 3},
    {"TorchXOnAHostThatIsNotListed", TorchX("elsewhere"), 0, 0,
     "would be the same part in several"},
};
INSTANTIATE_TEST_SUITE_P(All, LauncherTest, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(PartOf, ATextIsBySomebodysHand) {
  const Result<ops::Part> part = PartOf("1/4", {});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->index, 1);
  EXPECT_FALSE(part->numbered);
}

TEST(LauncherNote, NamesLaunchersThatDisagree) {
  const Result<ops::Part> part = PartOf(
      "auto",
      {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->note, "SLURM_PROCID says part 1 of 2; RANK was taken: part 3 of 8");
  const Result<ops::Part> same = PartOf(
      "auto",
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->note, "");
}

TEST(ProcessesHere, AreTheLaunchersWord) {
  EXPECT_EQ(ProcessesHere({}), 1);
  EXPECT_EQ(ProcessesHere({{"LOCAL_WORLD_SIZE", "32"}}), 32);
  EXPECT_EQ(ProcessesHere({{"LOCAL_WORLD_SIZE", "x"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), 4);
}

}  // namespace
}  // namespace nxdkit::tool
