// neuron-cache on a real tree, alone and together with other processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "tests/tools/export_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CacheTool : public ::testing::Test {
 protected:
  // A finished entry, one that failed, one that died.
  CacheTool() {
    Write("MODULE_1+d41d8cd9/model.neff", ReadFile(NXDKIT_TESTDATA "/neff/toy.neff"));
    Write("MODULE_1+d41d8cd9/compile_flags.txt", "");
    Write("MODULE_1+d41d8cd9/model.done", "");
    Write("MODULE_2+d41d8cd9/model.log", "no");
    Write("MODULE_3+d41d8cd9/model.hlo_module.pb.lock", "");
  }
  void Write(const std::string& name, const std::string& contents) const {
    workshop_.Write("cache/neuronxcc-2.21.33363.0+82129205/" + name, contents);
  }
  std::string Entry(const std::string& name) const {
    return workshop_.Cache() + "/neuronxcc-2.21.33363.0+82129205/" + name;
  }
  const ExportWorkshop workshop_;
};

TEST_F(CacheTool, ListsInTheWidthOfATerminal) {
  const ProcessResult narrow =
      RunOnTerminal({"sh", "-c", "stty cols 50 <&2; \"$@\" >&2", "sh", NXDKIT_TOOLS "/neuron-cache",
                     "ls", "--cache-dir", workshop_.Cache()});
  EXPECT_EQ(narrow.exit_code, 0) << narrow.err;
  EXPECT_THAT(narrow.err, HasSubstr("done      1.37 kB  neuronxcc-2.21...ULE_1+d41d8cd9\r\n"));
}

TEST_F(CacheTool, Lists) {
  const ProcessResult text = workshop_.CacheTool("ls");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      AllOf(HasSubstr("done      1.37 kB  neuronxcc-2.21.33363.0+82129205/MODULE_1+d41d8cd9"),
            HasSubstr("failed"), HasSubstr("locked"), HasSubstr(": 3 entries, 1.37 kB\n")));
  const Json json = JsonOf(workshop_.CacheTool("ls --json"));
  EXPECT_EQ(json["root"], workshop_.Cache());
  ASSERT_EQ(json["entries"].size(), 3u);
  EXPECT_EQ(json["entries"][0]["state"], "done");
  EXPECT_EQ(json["entries"][0]["payload"], "model.neff");
  EXPECT_EQ(json["entries"][0]["bytes"], 1367);
  EXPECT_EQ(json["entries"][1]["payload"], nullptr);
}

TEST_F(CacheTool, VerifiesAndSaysWhatIsWrong) {
  EXPECT_EQ(workshop_.CacheTool("verify").exit_code, 0);
  Write("MODULE_1+d41d8cd9/model.neff", "cut");
  const ProcessResult result = workshop_.CacheTool("verify");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("WRONG: neuronxcc-2.21.33363.0+82129205/MODULE_1+d41d8cd9"
                                          "/model.neff: offset 3: ends inside the header"),
                                HasSubstr("1 finished of 3 entries checked, 1 finding\n")));
  const Json json = JsonOf(workshop_.CacheTool("verify --json"));
  EXPECT_EQ(json["status"], "findings");
  EXPECT_EQ(json["findings"][0]["file"], "model.neff");
}

TEST_F(CacheTool, NamesAreEscaped) {
  Write("MODULE_\x1b[31m+d41d8cd9/model.neff", "x");
  Write("MODULE_\x1b[31m+d41d8cd9/model.done", "");
  for (const char* command : {"ls", "verify", "prune --damaged -n"})
    EXPECT_THAT(workshop_.CacheTool(command).out,
                AllOf(HasSubstr("MODULE_\\x1b[31m"), Not(HasSubstr("\x1b"))));
}

TEST_F(CacheTool, Prunes) {
  const ProcessResult dry = workshop_.CacheTool("prune -n");
  EXPECT_THAT(dry.out, HasSubstr("would remove neuronxcc-2.21.33363.0+82129205/MODULE_2+d41d8cd9 "
                                 "(failed, 2 B)"));
  EXPECT_TRUE(fs::exists(Entry("MODULE_2+d41d8cd9")));
  EXPECT_EQ(workshop_.CacheTool("prune").exit_code, 0);
  EXPECT_TRUE(fs::exists(Entry("MODULE_1+d41d8cd9")));
  EXPECT_FALSE(fs::exists(Entry("MODULE_2+d41d8cd9")));
  EXPECT_FALSE(fs::exists(Entry("MODULE_3+d41d8cd9")));
  const ProcessResult young = workshop_.CacheTool("prune --max-size 1K");
  EXPECT_EQ(young.exit_code, 0);
  EXPECT_THAT(young.err, HasSubstr("still 367 B over the limit"));
  const Json json = JsonOf(workshop_.CacheTool("prune --max-size 1K --ttl 0 --json"));
  EXPECT_EQ(json["removed"][0]["reason"], "least recently used");
  EXPECT_EQ(json["bytes_after"], 0);
}

TEST_F(CacheTool, TakesItsLimitsFromTheCompilersFlags) {
  const Words flags = {"NEURON_CC_FLAGS=--cache_size=1000 --cache_ttl 0"};
  EXPECT_THAT(workshop_.CacheTool("prune --ttl 1", flags).err, HasSubstr("still 367 B over"));
  EXPECT_EQ(JsonOf(workshop_.CacheTool("prune --json", flags))["bytes_after"], 0);
}

TEST_F(CacheTool, Clears) {
  EXPECT_EQ(workshop_.CacheTool("clear").exit_code, 0);
  EXPECT_TRUE(fs::is_empty(workshop_.Cache()));
}

TEST_F(CacheTool, RefusesWhatItCannotMean) {
  const auto refused = [&](const std::string& options, int code, const std::string& part) {
    const ProcessResult result = workshop_.CacheTool(options);
    EXPECT_EQ(result.exit_code, code) << options;
    EXPECT_THAT(result.err, HasSubstr(part)) << options;
  };
  refused("prunes", 2, "did you mean prune?");
  refused("", 2, "COMMAND is missing");
  refused("clear --ttl 3", 2, "belong to prune");
  refused("prune --max-size many", 2, "--max-size");
  refused("ls --cache-dir " + workshop_ / "none", 3, "No such file");
  refused("ls --cache-dir s3://bucket/x", 4, "object store");
}

// A fresh machine: nothing was ever put into the cache.
TEST_F(CacheTool, ThatIsNotMadeYetIsEmpty) {
  const Words environment = {"NEURON_COMPILE_CACHE_URL=" + workshop_ / "not_yet"};
  const ProcessResult list = workshop_.CacheTool("ls", environment);
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("not_yet: 0 entries, 0 B\n"));
  for (const char* command : {"verify", "prune", "clear"}) {
    const ProcessResult result = workshop_.CacheTool(command, environment);
    EXPECT_EQ(result.exit_code, 0) << command << result.err;
  }
  EXPECT_EQ(JsonOf(workshop_.CacheTool("ls --json", environment))["entries"], Json::array());
  EXPECT_FALSE(fs::exists(workshop_ / "not_yet")) << "a question makes nothing";
}

// A cache as in the guides of PyTorch 1: --cache_dir=ROOT, and the files in a folder of ROOT.
class OldPlace : public CacheTool {
 protected:
  OldPlace() {
    fs::create_directory(root_);
    fs::rename(workshop_.Cache(), old_);
  }

  const std::string root_ = workshop_ / "root";
  const std::string old_ = root_ + "/neuron-compile-cache";
  const Words flags_ = {"NEURON_CC_FLAGS=--cache_dir=" + root_};
  const std::string says_ = root_ + " has no neuronxcc-* folder, but its neuron-compile-cache has";
};

TEST_F(OldPlace, IsReadAndSaid) {
  for (const char* command : {"ls", "verify", "prune -n", "prune", "clear"}) {
    const ProcessResult result = workshop_.CacheTool(std::string(command) + " --json", flags_);
    EXPECT_EQ(result.exit_code, 0) << command << result.err;
    const Json json = JsonOf(result);
    EXPECT_EQ(json["root"], old_) << command;
    EXPECT_EQ(json["tree"], "libneuronxla") << command;
    ASSERT_EQ(json["warnings"].size(), 1u) << command << json["warnings"];
    EXPECT_THAT(json["warnings"][0].get<std::string>(), HasSubstr(says_)) << command;
  }
  EXPECT_TRUE(fs::is_empty(old_)) << "clear removes what it lists";
}

TEST_F(OldPlace, IsInspected) {
  const auto inspect = [&] {
    return RunProcess({Workshop::Tool("ckpt-inspect"), "--json", root_});
  };
  const ProcessResult result = inspect();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(JsonOf(result)["warnings"].dump(), HasSubstr(says_));
  EXPECT_THAT(result.out, HasSubstr("MODULE_1+d41d8cd9"));
  // In a run's folder it is part of the run.
  workshop_.Write("root/train.log", "x");
  EXPECT_THAT(inspect().out, Not(HasSubstr("MODULE_1+d41d8cd9")));
}

TEST_F(OldPlace, IsCopiedFromAndNotInto) {
  const std::string other = workshop_ / "other";
  const Json pushed = JsonOf(workshop_.CacheTool("push " + other + " --json --cache-dir " + root_));
  EXPECT_EQ(pushed["from"], old_) << pushed.dump();
  EXPECT_EQ(pushed["copied"].size(), 1u) << pushed.dump();
  fs::remove_all(old_ + "/neuronxcc-2.21.33363.0+82129205/MODULE_1+d41d8cd9");
  const Json pulled = JsonOf(workshop_.CacheTool("pull " + other + " --json", flags_));
  EXPECT_EQ(pulled["into"], root_) << pulled.dump();
  EXPECT_THAT(pulled["warnings"].dump(), HasSubstr(says_));
  EXPECT_TRUE(fs::exists(root_ + "/neuronxcc-2.21.33363.0+82129205/MODULE_1+d41d8cd9/model.done"));
  EXPECT_EQ(JsonOf(workshop_.CacheTool("ls --json", flags_))["root"], root_);
}

TEST_F(OldPlace, IsAskedByAnExportWhichWritesBesideIt) {
  workshop_.Compiler();
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const auto make = [&](const char* out) {
    return workshop_.Export("--tp 2 --bs 4 --seq 256", model, workshop_ / out, flags_);
  };
  ASSERT_EQ(make("first").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 1u);
  ASSERT_TRUE(fs::exists(root_ + "/neuronxcc-unknown"));
  // An entry of ours that was put there.
  fs::rename(root_ + "/neuronxcc-unknown", old_ + "/neuronxcc-unknown");
  const ProcessResult second = make("second");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr(says_));
  EXPECT_EQ(workshop_.Runs(), 1u) << "no compiler ran";
}

// Exports and prunes at the same time: every export gets a whole blob.
TEST_F(CacheTool, PrunesBesideExports) {
  workshop_.Compiler();
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  std::thread pruner([&] {
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(
          workshop_.CacheTool(i % 2 ? "clear" : "prune --max-size 1K --ttl 0 --empty").exit_code,
          0);
  });
  for (int i = 0; i < 6; ++i) {
    const std::string out = workshop_ / ("out" + std::to_string(i));
    const ProcessResult result = workshop_.Export("--tp 2 --bs 4 --seq 256", model, out);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(ReadFile(out + "/model.pt") == testing_util::CompiledBlob());
  }
  pruner.join();
}

}  // namespace
}  // namespace nxdkit::test
