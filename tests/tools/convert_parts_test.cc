// One conversion split over processes: whichever process makes which part when, and how often, the
// output equals that of a single process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "formats/ops/convert/part_destination.h"
#include "lib/system/folder_lock.h"
#include "lib/system/owner.h"
#include "tests/lib/eventually.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPartsToNxd[] = "--from hf --to nxd --tp 4 --hw trn2 ";

TEST(AssignParts, TheLargestFirstToTheLeastLoaded) {
  EXPECT_THAT(ops::AssignParts({5, 9, 4, 4}, 2), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(ops::AssignParts({7, 7, 7}, 5), ElementsAre(0, 1, 2));
  EXPECT_THAT(ops::AssignParts({}, 2), ElementsAre());
}

class ConvertParts : public ::testing::Test {
 protected:
  ProcessResult Part(const std::string& part, const std::string& options = kPartsToNxd,
                     const std::vector<std::string>& environment = {}) const {
    Words words = {Workshop::Tool("nxd-convert"), "--no-sync", "--json", "--part", part};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(model_);
    words.push_back(out_);
    return RunProcess(words, environment);
  }
  void ExpectWholeOutput(const std::string& options = kPartsToNxd) const {
    ExpectConverts(options, model_, workshop_ / "one");
    ExpectSameTree(out_, workshop_ / "one");
    EXPECT_FALSE(fs::exists(out_ + ".parts"));
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
  }
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyQwen3());
  const std::string out_ = workshop_ / "out";
};

TEST_F(ConvertParts, TheLastOnePublishes) {
  for (const std::string part : {"2/3", "0/3"}) {
    const Json json = JsonOf(Part(part));
    EXPECT_EQ(json["exit_code"], 0) << json.dump();
    EXPECT_EQ(json["part"]["published"], false);
    EXPECT_THAT(json["part"]["missing"], ::testing::Contains(1));
    EXPECT_THAT(json["warnings"], ::testing::IsEmpty());
    EXPECT_FALSE(fs::exists(out_));
  }
  const Json last = JsonOf(Part("1/3"));
  EXPECT_EQ(last["part"]["published"], true) << last.dump();
  EXPECT_EQ(last["part"]["index"], 1);
  EXPECT_EQ(last["part"]["count"], 3);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, SaysThatTheOutputIsThereWhenItIs) {
  const std::string to(kPartsToNxd);
  const ProcessResult first = Workshop::Convert(to + "--part 0/2", model_, out_);
  EXPECT_THAT(first.out, HasSubstr("made part 0 of 2 of " + out_));
  EXPECT_THAT(first.out, ::testing::Not(HasSubstr("wrote")));
  const ProcessResult last = Workshop::Convert(to + "--part 1/2", model_, out_);
  EXPECT_THAT(last.out, HasSubstr("wrote " + out_));
}

TEST_F(ConvertParts, ADryRunTellsThePartsFilesAndBytes) {
  const std::string dry = std::string(kPartsToNxd) + "--dry-run ";
  uint64_t bytes = 0;
  uint64_t files = 0;
  for (const std::string part : {"0/3", "1/3", "2/3"}) {
    const ProcessResult result = Part(part, dry);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json json = JsonOf(result);
    EXPECT_EQ(json["part"]["published"], false);
    EXPECT_EQ(json["output_bytes"], json["part"]["bytes"]);
    bytes += json["part"]["bytes"].get<uint64_t>();
    files += json["part"]["files"].get<uint64_t>();
    EXPECT_FALSE(Traces(out_));
    EXPECT_FALSE(fs::exists(out_ + ".parts")) << "nothing is written";
    const Json made = JsonOf(Part(part, std::string(kPartsToNxd)));
    EXPECT_EQ(made["part"]["bytes"], json["part"]["bytes"]);
    EXPECT_EQ(made["part"]["files"], json["part"]["files"]);
    fs::remove_all(out_ + ".parts");
  }
  EXPECT_EQ(files, 4U);
  EXPECT_EQ(bytes, JsonOf(Workshop::Convert(dry + "--json", model_, out_))["output_bytes"]);
}

TEST_F(ConvertParts, ADryRunRefusesAnotherSplit) {
  EXPECT_EQ(Part("0/3").exit_code, 0);
  const ProcessResult result = Part("0/2", std::string(kPartsToNxd) + "--dry-run ");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("another split"));
}

TEST_F(ConvertParts, EveryFormatOfManyFiles) {
  const std::string each[] = {"--from hf --to rollout --tp 4 --bs 1 --seq 32 --verify",
                              "--from hf --to hf --max-shard-size 20kB",
                              "--from hf --to nxd --tp 2 --xser"};
  for (const std::string& options : each) {
    ASSERT_EQ(Part("0/2", options).exit_code, 0) << options;
    ASSERT_EQ(Part("1/2", options).exit_code, 0) << options;
    ExpectWholeOutput(options);
    fs::remove_all(out_);
    fs::remove_all(workshop_ / "one");
  }
}

TEST_F(ConvertParts, MorePartsThanFiles) {
  for (int part = 0; part < 7; ++part)
    EXPECT_EQ(Part(std::to_string(part) + "/7").exit_code, 0) << part;
  ExpectWholeOutput();
}

TEST_F(ConvertParts, APartMayBeRunAgain) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ASSERT_EQ(Part("0/2").exit_code, 0);
  EXPECT_FALSE(fs::exists(out_));
  ASSERT_EQ(Part("1/2").exit_code, 0);
  ExpectWholeOutput();
}

// Two processes started as part 0 would both succeed, and wait for part 1 forever.
TEST_F(ConvertParts, OneLivingProcessForEachNumber) {
  ASSERT_EQ(Part("1/2").exit_code, 0);
  const auto owner = [&](const std::string& text) { workshop_.Write("out.parts/owner-0", text); };
  const auto refused = [&](const std::string& who) {
    const ProcessResult result = Part("0/2");
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_THAT(result.out, HasSubstr("another process makes this part too (" + who));
    EXPECT_FALSE(fs::exists(out_));
  };
  Owner living = ThisProcess();
  owner(living.ToText());
  refused("pid " + std::to_string(living.pid) + " on " + living.host);
  owner("elsewhere boot/1 17 4711\n");
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      workshop_.Write("out.parts/part-0-1/rank", "it writes on");
    }
  });
  refused("pid 17 on elsewhere");
  writer.request_stop();
  writer.join();
  fs::remove_all(out_ + ".parts/part-0-1");
  living.start -= 1;
  owner(living.ToText());
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ExpectWholeOutput();
}

// Like a pod restarted after a kill: its number is free after a minute.
TEST_F(ConvertParts, ASilentProcessOfAnotherMachineIsDead) {
  ASSERT_EQ(Part("1/2").exit_code, 0);
  const std::string owner = workshop_.Write("out.parts/owner-0", "elsewhere boot/1 17 4711\n");
  fs::last_write_time(owner, fs::file_time_type::clock::now() - std::chrono::seconds(58));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(Part("0/2").exit_code, 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  ExpectWholeOutput();
}

// Whether a process is waiting for the one that has its part: each time it checks, it touches the
// folder of its attempt, which otherwise has only the times of its creation.
bool ComesToWait(const std::string& parts) {
  std::set<fs::file_time_type> times;
  return testing_util::Eventually([&] {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(parts, gone))
      if (entry.path().filename().string().starts_with("part-0-"))
        times.insert(fs::last_write_time(entry.path(), gone));
    return times.size() >= 4;
  });
}

// While it checks whether another one is alive, that one finishes and removes the folder.
TEST_F(ConvertParts, WhoWaitsForAnotherSeesThatItIsThrough) {
  const std::string parts = out_ + ".parts";
  ASSERT_EQ(Part("1/2").exit_code, 0);
  workshop_.Write("out.parts/owner-0", "elsewhere boot/1 17 4711\n");
  ProcessResult second;
  std::thread waiting([&] { second = Part("0/2"); });
  const bool waits = ComesToWait(parts);
  // The result of the other process: a whole output, and no folder.
  ExpectConverts(kPartsToNxd, model_, workshop_ / "other");
  fs::rename(workshop_ / "other", out_);
  fs::rename(parts, workshop_ / "gone");
  const auto start = std::chrono::steady_clock::now();
  waiting.join();
  EXPECT_TRUE(waits);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(second.exit_code, 0) << second.out;
  EXPECT_EQ(JsonOf(second)["already_published"], true) << second.out;
  EXPECT_FALSE(fs::exists(parts)) << "nothing of it is made anew";
  ExpectWholeOutput();
}

TEST_F(ConvertParts, WhoWaitsInAFolderThatIsRemovedEnds) {
  const std::string parts = out_ + ".parts";
  ASSERT_EQ(Part("1/2").exit_code, 0);
  workshop_.Write("out.parts/owner-0", "elsewhere boot/1 17 4711\n");
  ProcessResult second;
  std::thread waiting([&] { second = Part("0/2"); });
  EXPECT_TRUE(ComesToWait(parts));
  fs::rename(parts, workshop_ / "gone");
  waiting.join();
  EXPECT_EQ(second.exit_code, 5) << second.out;
  EXPECT_THAT(second.out, HasSubstr("out.parts/owner-0"));
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_FALSE(fs::exists(parts)) << "nothing of it is made anew";
}

// Two processes started as one part; the other has finished it meanwhile.
TEST_F(ConvertParts, WhoWaitedDoesNotMakeAPartThatIsDone) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  const fs::path made = out_ + ".parts/files/model";
  std::map<std::string, fs::file_time_type> times;
  for (const auto& file : fs::directory_iterator(made))
    times[file.path().string()] = fs::last_write_time(file.path());
  ASSERT_EQ(Part("0/2").exit_code, 0);
  for (const auto& [file, time] : times) EXPECT_EQ(fs::last_write_time(file), time) << file;
}

// Two pods with the same number, one after the other: both would succeed, and nobody would make
// part 1.
TEST_F(ConvertParts, OnePartOfTwoMachinesIsNoSuccess) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  const std::string mark = ReadFile(out_ + ".parts/done-0");
  const std::string plan = mark.substr(0, mark.find('\n') + 1);
  const std::optional<Owner> maker = ParseOwner(mark.substr(plan.size()));
  ASSERT_TRUE(maker) << mark;
  EXPECT_EQ(maker->host, ThisProcess().host);
  workshop_.Write("out.parts/done-0", plan + "job-a-0 boot/1 17 4711\n");
  const std::vector<std::string> by_hand = {"VC_TASK_INDEX=0", "PART_COUNT=2"};
  for (const ProcessResult& second : {Part("auto", kPartsToNxd, by_hand), Part("0/2")}) {
    EXPECT_EQ(second.exit_code, 2) << second.out;
    EXPECT_THAT(second.out,
                HasSubstr("part 0 was made on job-a-0, and this is " + ThisProcess().host +
                          ": where two have one number nobody makes part 1"));
    EXPECT_THAT(second.out, HasSubstr("give every process its own --part I/N"));
  }
  // A launcher's process may be restarted elsewhere; marks of earlier versions name no process.
  EXPECT_EQ(Part("auto", kPartsToNxd, {"PMI_RANK=0", "PMI_SIZE=2"}).exit_code, 0);
  workshop_.Write("out.parts/done-0", plan);
  EXPECT_EQ(Part("0/2").exit_code, 0);
  workshop_.Write("out.parts/done-0", plan + "job-a-0 boot/1 17 4711\n");
  ASSERT_EQ(JsonOf(Part("1/2"))["part"]["published"], true);
  EXPECT_EQ(Part("0/2").exit_code, 0) << "nothing is missing any more";
  ExpectWholeOutput();
}

// If it were taken for a missing one, each part would succeed, and leave no output.
TEST_F(ConvertParts, AMarkThatCannotBeReadIsAnError) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  const std::string mark = out_ + ".parts/done-0";
  fs::remove(mark);
  fs::create_symlink("done-0", mark);  // a loop
  for (const std::string part : {"1/2", "0/2"}) {
    const ProcessResult result = Part(part);
    EXPECT_EQ(result.exit_code, 5) << result.out;
    EXPECT_THAT(result.out, HasSubstr("out.parts/done-0"));
    EXPECT_THAT(result.out, HasSubstr("the part is made again when its mark is removed"));
  }
  fs::remove(mark);
  ASSERT_EQ(JsonOf(Part("0/2"))["part"]["published"], true);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, AMarkOfSomethingElseIsSaid) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  workshop_.Write("out.parts/done-0", "");
  const Json waits = JsonOf(Part("1/2"));
  EXPECT_THAT(waits["part"]["missing"], ElementsAre(0));
  EXPECT_THAT(waits["warnings"].dump(), HasSubstr("part 0 must be run again: its mark "));
  ASSERT_EQ(JsonOf(Part("0/2"))["part"]["published"], true);
  ExpectWholeOutput();
}

// Processes with the same number, at once, repeatedly: the last one to finish leaves only the
// output.
TEST_F(ConvertParts, ADoubleStartLeavesNoFolder) {
  for (int round = 0; round < 20; ++round) {
    ProcessResult results[4];
    {
      std::vector<std::jthread> started;
      for (ProcessResult& result : results) started.emplace_back([&] { result = Part("0/1"); });
    }
    int whole = 0;
    for (const ProcessResult& result : results) whole += result.exit_code == 0 ? 1 : 0;
    EXPECT_GE(whole, 1) << results[0].out;
    EXPECT_TRUE(fs::exists(out_));
    for (const auto& entry : fs::directory_iterator(workshop_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with("out.")) << entry.path();
    fs::remove_all(out_);
  }
}

// As earlier versions left it after a double start, and as kills leave it.
TEST_F(ConvertParts, ARepeatClearsAFolderWithoutAPlan) {
  ExpectConverts(kPartsToNxd, model_, out_);
  workshop_.Write("out.parts/part-0-1/x", "x");
  workshop_.Write("out.parts/files/model/x", "x");
  workshop_.Write("out.parts.0123456789abcdef.partial/plan", "x");
  ASSERT_EQ(Part("0/2").exit_code, 0);
  EXPECT_FALSE(fs::exists(out_ + ".parts.0123456789abcdef.partial"));
  ExpectWholeOutput();
  workshop_.Write("out.parts/mine", "x");
  ASSERT_EQ(Part("0/2").exit_code, 0);
  EXPECT_TRUE(fs::exists(out_ + ".parts/mine")) << "that is no folder of ours";
}

TEST_F(ConvertParts, OfAPublishedOutputAnyPartMayBeRunAgain) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ASSERT_EQ(JsonOf(Part("1/2"))["already_published"], false);
  for (const std::string part : {"1/2", "0/2", "auto", "1/3"}) {
    for (const std::string& options :
         {std::string(kPartsToNxd), std::string(kPartsToNxd) + "--dry-run",
          std::string(kPartsToNxd) + "--resume --verify"}) {
      const ProcessResult again = Part(part, options, {"JOB_COMPLETION_INDEX=1", "PART_COUNT=2"});
      const Json json = JsonOf(again);
      EXPECT_EQ(again.exit_code, 0) << again.out;
      EXPECT_EQ(json["already_published"], true);
      EXPECT_EQ(json["part"]["published"], true);
      EXPECT_THAT(json["part"]["missing"], ::testing::IsEmpty());
    }
  }
  ExpectWholeOutput();
}

// A kill between the rename of the output and the removal of its parts.
TEST_F(ConvertParts, ARepeatClearsWhatAKillLeft) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  fs::copy(out_ + ".parts", workshop_ / "left", fs::copy_options::recursive);
  ASSERT_EQ(Part("1/2").exit_code, 0);
  fs::rename(workshop_ / "left", out_ + ".parts");
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ExpectWholeOutput();
}

void ChangeByte(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 1));
}

// Each part checks the bytes of its own files, and the names and sizes of all.
TEST_F(ConvertParts, AnOutputThatIsNotTheSameIsInTheWay) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ASSERT_EQ(Part("1/2").exit_code, 0);
  const auto expect = [&](const std::string& message) {
    for (const ProcessResult& result :
         {Part("1/2"),
          Workshop::Convert(std::string(kPartsToNxd) + "--resume --json", model_, out_)}) {
      EXPECT_EQ(result.exit_code, 2) << result.out;
      EXPECT_THAT(result.out, HasSubstr("the output exists and is not what this command makes"));
      EXPECT_THAT(result.out, HasSubstr(message));
      EXPECT_THAT(result.out, HasSubstr("--force replaces it"));
    }
  };
  const std::string rank = "model/dp_rank_00_tp_rank_03_pp_rank_00.pt";
  ChangeByte(out_ + "/" + rank, 5000);
  expect(rank + ": model.embed_tokens.weight: offset 5000: byte ");
  ChangeByte(out_ + "/" + rank, 5000);
  ChangeByte(out_ + "/" + rank, 3);
  expect(rank + ": offset 3: byte ");
  ChangeByte(out_ + "/" + rank, 3);
  ChangeByte(out_ + "/nxdkit.json", 1);
  expect("nxdkit.json: offset 1: byte ");
  ChangeByte(out_ + "/nxdkit.json", 1);
  workshop_.Write("out/optim.pt", "x");
  expect("optim.pt: this file does not belong to it");
  fs::remove(out_ + "/optim.pt");
  fs::rename(out_ + "/" + rank, workshop_ / "aside");
  expect(rank + ": there is no such file");
  fs::rename(workshop_ / "aside", out_ + "/" + rank);
  fs::resize_file(out_ + "/" + rank, 17);
  expect(rank + ": found 17 bytes, expected ");
  // With --force it is made anew.
  ASSERT_EQ(Part("0/2", std::string(kPartsToNxd) + "--force").exit_code, 0);
  ASSERT_EQ(Part("1/2", std::string(kPartsToNxd) + "--force").exit_code, 0);
  ExpectWholeOutput();
}

// The same names, shapes, sizes and options, and even the old times, but other weights.
TEST_F(ConvertParts, AnotherModelInTheSamePlaceIsNoRepeat) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  ASSERT_EQ(Part("1/2").exit_code, 0);
  const std::string other = workshop_.MakeModel("other", testing_util::TinyQwen3(), "--seed 9");
  fs::last_write_time(other + "/model.safetensors",
                      fs::last_write_time(model_ + "/model.safetensors"));
  fs::rename(model_, workshop_ / "before");
  fs::rename(other, model_);
  EXPECT_EQ(Part("1/2").exit_code, 2);
  EXPECT_EQ(Workshop::Convert(std::string(kPartsToNxd) + "--resume", model_, out_).exit_code, 2);
}

TEST_F(ConvertParts, EveryFormatCanBeResumedWhenItWasThrough) {
  const std::string each[] = {"--from hf --to rollout --tp 4 --bs 1 --seq 32",
                              "--from hf --to hf --max-shard-size 20kB",
                              "--from hf --to nxd --tp 2 --xser", "--from hf --to torch"};
  for (const std::string& options : each) {
    ExpectConverts(options, model_, out_);
    const Tree before = ReadTree(out_);
    EXPECT_EQ(Workshop::Convert(options, model_, out_).exit_code, 2) << "it did not say --resume";
    const Json json = JsonOf(Workshop::Convert(options + " --resume --json", model_, out_));
    EXPECT_EQ(json["exit_code"], 0) << json.dump();
    EXPECT_EQ(json["already_published"], true) << options;
    EXPECT_EQ(json["resumed_tasks"], 0);
    EXPECT_TRUE(ReadTree(out_) == before);
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    fs::remove_all(out_);
  }
}

TEST_F(ConvertParts, ALostFileIsMadeAgain) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  for (const auto& file : fs::directory_iterator(out_ + ".parts/files/model"))
    fs::remove(file.path());
  const Json waits = JsonOf(Part("1/2"));
  ASSERT_EQ(waits["part"]["published"], false);
  EXPECT_THAT(waits["part"]["missing"], ElementsAre(0));
  EXPECT_THAT(waits["warnings"].dump(), HasSubstr("part 0 must be run again: its finished file"));
  ASSERT_EQ(JsonOf(Part("0/2"))["part"]["published"], true);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, AnOutputThatCannotBePublishedIsAnError) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  workshop_.Write("out.partial", "mine");
  const ProcessResult last = Part("1/2");
  EXPECT_EQ(last.exit_code, 5) << last.out;
  EXPECT_THAT(last.out, HasSubstr("out.partial"));
  fs::remove(out_ + ".partial");
  ASSERT_EQ(Part("1/2").exit_code, 0);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, WhoeverFindsAnotherPublishingLeavesItToIt) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  {
    const auto lock = FolderLock::Try(out_ + ".parts", FolderLock::Mode::kExclusive);
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(JsonOf(Part("1/2"))["part"]["published"], false);
  }
  EXPECT_FALSE(fs::exists(out_));
  ASSERT_EQ(JsonOf(Part("1/2"))["part"]["published"], true);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, RefusesAnotherSplitOrAnotherPlan) {
  ASSERT_EQ(Part("0/2").exit_code, 0);
  for (const ProcessResult& result :
       {Part("0/3"), Part("1/2", "--from hf --to nxd --tp 2 --qkv linear")}) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.out, HasSubstr("the parts of another conversion or another split"));
  }
  ASSERT_EQ(Part("1/2").exit_code, 0);
  ExpectWholeOutput();
}

TEST_F(ConvertParts, RefusesWhatMakesNoSense) {
  const auto expect = [&](const ProcessResult& result, const std::string& message) {
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr(message));
  };
  expect(Part("2/2"), "part 2 of 2 does not exist");
  expect(Part("1"), "found 1, expected I/N or auto");
  expect(Part("0/2", "--from hf --to torch"), "a single file cannot be made in parts");
  expect(Part("auto"), "no launcher says which part this process is");
  EXPECT_FALSE(fs::exists(out_ + ".parts"));
}

struct Launcher {
  std::vector<std::string> variables;
  int index, count;
  std::string error;
};

TEST_F(ConvertParts, LaunchersSayWhichPart) {
  const Launcher launchers[] = {
      {{"SLURM_ARRAY_TASK_ID=6", "SLURM_ARRAY_TASK_MIN=4", "SLURM_ARRAY_TASK_MAX=8",
        "SLURM_ARRAY_TASK_STEP=2", "SLURM_ARRAY_TASK_COUNT=3"},
       1,
       3,
       ""},
      {{"SLURM_ARRAY_TASK_ID=2", "SLURM_ARRAY_TASK_MIN=0", "SLURM_ARRAY_TASK_MAX=2",
        "SLURM_ARRAY_TASK_COUNT=3", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"},
       5,
       6,
       ""},
      // sbatch --array without srun: slurmd sets the one variable, only srun the other.
      {{"SLURM_ARRAY_TASK_ID=2", "SLURM_ARRAY_TASK_MIN=0", "SLURM_ARRAY_TASK_MAX=2",
        "SLURM_ARRAY_TASK_COUNT=3", "SLURM_PROCID=0", "SLURM_NTASKS=1"},
       2,
       3,
       ""},
      {{"SLURM_PROCID=0", "SLURM_NTASKS=1"}, 0, 0, "no launcher says which part this process is"},
      {{"JOB_COMPLETION_INDEX=3", "PART_COUNT=4"}, 3, 4, ""},
      {{"VC_TASK_INDEX=0", "PART_COUNT=4"}, 0, 4, ""},
      {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, 1, 2, ""},
      {{"PMI_RANK=0", "PMI_SIZE=2"}, 0, 2, ""},
      {{"SLURM_ARRAY_TASK_ID=5", "SLURM_ARRAY_TASK_MIN=1", "SLURM_ARRAY_TASK_MAX=9",
        "SLURM_ARRAY_TASK_COUNT=3"},
       0,
       0,
       "its parts cannot be numbered"},
      {{"JOB_COMPLETION_INDEX=3"}, 0, 0, "PART_COUNT is not set"},
      {{"PMI_RANK=x", "PMI_SIZE=2"}, 0, 0, "PMI_RANK=x is not a number"},
      {{"PMI_RANK=2", "PMI_SIZE=2"}, 0, 0, "part 2 of 2 does not exist"},
  };
  for (const Launcher& launcher : launchers) {
    const ProcessResult result = Part("auto", kPartsToNxd, launcher.variables);
    const Json json = JsonOf(result);
    if (!launcher.error.empty()) {
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.out, HasSubstr(launcher.error));
      continue;
    }
    ASSERT_EQ(result.exit_code, 0) << result.out;
    EXPECT_EQ(json["part"]["index"], launcher.index) << launcher.variables[0];
    EXPECT_EQ(json["part"]["count"], launcher.count) << launcher.variables[0];
    fs::remove_all(out_ + ".parts");
  }
}

}  // namespace
}  // namespace nxdkit::test
