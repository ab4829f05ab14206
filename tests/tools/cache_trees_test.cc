// neuron-cache on trees of vLLM Neuron and of TorchNeuron, and killed at any moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/tools/export_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_util::GraphOf;
using testing_util::KernelConfig;
using testing_util::KernelFile;
using testing_util::LiteWorkshop;
using testing_util::ToyNeff;

// Hides the trees of this machine.
ProcessResult RunCache(const LiteWorkshop& shop, const std::string& options,
                       Words environment = {}) {
  Words words = {Workshop::Tool("neuron-cache")};
  for (const std::string& word : Split(options)) words.push_back(word);
  environment.push_back("HOME=" + shop.Path("home"));
  for (const char* name : {"VLLM_CACHE_ROOT", "NEURON_LIBTORCH_CACHE_ROOT",
                           "TORCH_NEURONX_NEFF_CACHE_DIR", "NEURON_COMPILE_CACHE_URL"})
    if (std::ranges::none_of(environment, [&](const std::string& entry) {
          return entry.starts_with(std::string(name) + "=");
        }))
      environment.push_back(std::string(name) + "=" + shop.Path("none"));
  return RunProcess(words, environment);
}

// Runs with --json; returns the document, which must match its schema.
Json JsonFrom(const LiteWorkshop& shop, int exit_code, const std::string& options,
              const Words& environment = {}) {
  const ProcessResult result = RunCache(shop, options + " --json", environment);
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  const Json json = JsonOf(result);
  EXPECT_THAT(SourceSchemas().Faults("neuron-cache.json", json), IsEmpty()) << result.out;
  return json;
}

TEST(CacheTrees, AreListedAndVerified) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const std::string dir = " --cache-dir " + shop.root();
  EXPECT_THAT(RunCache(shop, "ls" + dir).out,
              AllOf(HasSubstr("done "), HasSubstr(key), HasSubstr(": 1 entry of vllm-neuron, ")));
  const Json list = JsonFrom(shop, 0, "ls" + dir);
  EXPECT_EQ(list["tree"], "vllm-neuron");
  EXPECT_EQ(list["entries"][0]["name"], key);
  EXPECT_EQ(list["entries"][0]["compiler"], nullptr);
  EXPECT_THAT(RunCache(shop, "verify" + dir).out,
              HasSubstr("a tree of vllm-neuron: the contents of such a tree are known from the "
                        "engine's source only"));
  shop.Write(key + "/graph_" + key + ".neff", ToyNeff().substr(0, 1300));
  const Json cut = JsonFrom(shop, 1, "verify" + dir);
  EXPECT_EQ(cut["findings"].size(), 2u);
  EXPECT_EQ(cut["findings"][0]["entry"], key);
  EXPECT_THAT(std::string(cut["findings"][0]["message"]), HasSubstr("counts it as a hit"));
  EXPECT_EQ(JsonFrom(shop, 0, "prune --damaged -n" + dir)["removed"][0]["reason"], "damaged");
  EXPECT_EQ(JsonFrom(shop, 0, "clear" + dir)["removed"][0]["reason"], "clear");
}

TEST(CacheTrees, ThatLieWhereTheyDoByDefaultAreNamed) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({}), "cache/neuron/compile_cache");
  shop.Write("ab/cd/abcd" + std::string(28, '1') + ".neff", ToyNeff(), "native");
  const Words environment = {"VLLM_CACHE_ROOT=" + shop.Path("cache"),
                             "TORCH_NEURONX_NEFF_CACHE_DIR=" + shop.Path("native")};
  EXPECT_THAT(
      RunCache(shop, "ls", environment).out,
      AllOf(HasSubstr("also there: " + shop.Path("cache/neuron/compile_cache") + " (vllm-neuron)"),
            HasSubstr("also there: " + shop.Path("native") + " (torch-neuronx)")));
  const Json json = JsonFrom(shop, 0, "ls", environment);
  EXPECT_EQ(json["others"].size(), 2u);
  EXPECT_EQ(json["tree"], nullptr);
}

TEST(CacheTrees, ArePushedAndPulled) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Whole('a', GraphOf({KernelConfig(binary)}));
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig(binary)));
  const std::string share = shop.Path("share");
  const std::string from = " --cache-dir " + shop.root() + " --kernels " + shop.scratch().folder();
  const Json dry = JsonFrom(shop, 0, "push -n " + share + from);
  EXPECT_EQ(dry["copied"].size(), 2u);
  EXPECT_FALSE(fs::exists(share));
  const Json pushed = JsonFrom(shop, 0, "push " + share + from);
  EXPECT_EQ(pushed["root"], fs::canonical(shop.root()).string());
  EXPECT_EQ(pushed["into"], fs::canonical(share).string());
  fs::remove(binary);
  // Another machine, where the variable names the engine's tree.
  const Words there = {"VLLM_CACHE_ROOT=" + shop.Path("other")};
  const Json pulled = JsonFrom(shop, 0, "pull " + share, there);
  EXPECT_EQ(pulled["copied"].size(), 2u);
  EXPECT_THAT(shop.Faults("other/neuron/compile_cache"), IsEmpty());
  EXPECT_EQ(JsonFrom(shop, 0, "pull " + share, there)["kept"], 2u);
  EXPECT_THAT(RunCache(shop, "merge " + share + " " + shop.Path("third")).out,
              HasSubstr("copied 2 into "));
}

TEST(CacheTrees, AreRelocated) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({KernelConfig("/old/k.klir")}));
  const std::string dir = " --cache-dir " + shop.root();
  const std::string options = "relocate /old/ " + shop.Path("new") + dir;
  EXPECT_THAT(RunCache(shop, options + " -n").out,
              HasSubstr("WRONG: there is no " + shop.Path("new/k.klir")));
  const Json json = JsonFrom(shop, 1, options);
  EXPECT_EQ(json["changed"].size(), 1u);
  EXPECT_EQ(json["missing"][0], shop.Path("new/k.klir"));
  fs::create_directory(shop.Path("newer"));
  shop.scratch().Write("newer/k.klir", "klir");
  EXPECT_EQ(
      JsonFrom(shop, 0, "relocate " + shop.Path("new") + " " + shop.Path("newer") + dir)["changed"]
          .size(),
      1u);
  shop.Write(LiteWorkshop::Key('a') + "/graph.hlo", "no graph");
  const Json left = JsonFrom(shop, 1, "relocate /old /new --cache-dir " + shop.root());
  EXPECT_EQ(left["left"][0]["file"], LiteWorkshop::Key('a') + "/graph.hlo");
}

// Faults that the engine does not mind are reported, but not as findings.
TEST(CacheTrees, MayHaveRemarks) {
  const LiteWorkshop shop;
  shop.Write(shop.Whole('a') + "/command.txt", "neuronx-cc compile x\n");
  const std::string options = "verify --cache-dir " + shop.root();
  EXPECT_THAT(RunCache(shop, options).out,
              AllOf(HasSubstr("warning: "), HasSubstr("there is no --target")));
  const Json json = JsonFrom(shop, 0, options);
  EXPECT_EQ(json["findings"].size(), 0u);
  EXPECT_EQ(json["remarks"][0]["file"], "command.txt");
}

// The variable names the cache of libneuronxla, which these do not use.
TEST(CacheTrees, DoNotNeedAFolderThatIsNotUsed) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({}), "share");
  const Words there = {"VLLM_CACHE_ROOT=" + shop.Path("other"),
                       "NEURON_COMPILE_CACHE_URL=s3://bucket/cache"};
  EXPECT_EQ(JsonFrom(shop, 0, "pull " + shop.Path("share"), there)["copied"].size(), 1u);
  EXPECT_EQ(RunCache(shop, "relocate /old /new", there).exit_code, 0);
  const ProcessResult used = RunCache(shop, "ls", there);
  EXPECT_EQ(used.exit_code, 4);
  EXPECT_THAT(used.err, HasSubstr("s3://bucket/cache is an object store"));
}

TEST(CacheTrees, RefuseWhatCannotBeMeant) {
  const LiteWorkshop shop;
  shop.Whole('a');
  const std::string dir = " --cache-dir " + shop.root();
  const auto refused = [&](const std::string& options, int code, const std::string& part) {
    const ProcessResult result = RunCache(shop, options);
    EXPECT_EQ(result.exit_code, code) << options;
    EXPECT_THAT(result.err, HasSubstr(part)) << options;
  };
  refused("merge " + shop.root(), 2, "merge takes FROM INTO, 1 found");
  refused("ls x", 2, "ls takes no paths, 1 found");
  refused("push", 2, "push takes TO, 0 found");
  refused("relocate old new" + dir, 2, "absolute paths expected");
  refused("push " + shop.Path("new"), 2, "name this machine's with --cache-dir");
  refused("merge a b" + dir, 2, "--cache-dir does not belong to it");
  refused("push " + shop.root() + dir, 2, "are one tree");
  refused("pull " + shop.Path("no") + dir, 3, "there is no such folder");
  refused("pull s3://bucket/x" + dir, 4, "s3");
  refused("prune --only-compiler 2.1" + dir, 2, "its entries do not record their compiler");
  refused("ls --damaged" + dir, 2, "--damaged belongs to");
}

// Trees that take so long to copy that a signal arrives during the copy.
class KilledCaches : public ::testing::Test {
 protected:
  static constexpr int kEntries = 40;
  static constexpr int kRounds = 15;

  KilledCaches() {
    const std::string binary = shop_.scratch().Write("k.klir", std::string(100'000, 'k'));
    for (int i = 0; i < kEntries; ++i) {
      const std::string key = shop_.WholeKey(
          Md5Hex(std::to_string(i)), GraphOf({std::string(200'000, 'g'), KernelConfig(binary)}));
      shop_.Write("nki/" + key + ".json", KernelFile(KernelConfig(binary)));
    }
  }

  // Everything that a reader takes for an entry or a kernel is whole, whatever other files there
  // are.
  void ExpectWhole(const std::string& tree) {
    if (!fs::exists(shop_.Path(tree))) return;
    for (const std::string& fault : shop_.Faults(tree))
      EXPECT_THAT(fault, HasSubstr("a leftover of")) << fault;
  }
  std::vector<std::string> Command(const std::string& options) const {
    std::vector<std::string> words = {Workshop::Tool("neuron-cache")};
    for (const std::string& word : Split(options)) words.push_back(word);
    return words;
  }

  LiteWorkshop shop_;
  std::string kernels_ = " --kernels " + shop_.scratch().folder();
};

TEST_F(KilledCaches, PushesLeaveNothingHalf) {
  const std::string options =
      "push " + shop_.Path("into") + " --damaged --cache-dir " + shop_.root() + kernels_;
  KillMoments moments(std::chrono::milliseconds(300), 7);
  for (int i = 0; moments.GoesOn(i, kRounds); ++i) {
    // Some are already there, one of them damaged and one unfinished.
    fs::remove_all(shop_.Path("into"));
    for (int j = 0; j < 4; ++j) {
      const std::string key = shop_.WholeKey(Md5Hex(std::to_string(j)), GraphOf({}), "into");
      if (j == 0) fs::remove(shop_.In(key + "/.compilation_complete", "into"));
    }
    const bool in_time = RunAndSignal(Command(options), SIGKILL, moments.Next()) == 128 + SIGKILL;
    moments.Note(in_time);
    for (const std::string& fault : shop_.Faults("into"))
      EXPECT_THAT(fault, ::testing::AnyOf(HasSubstr("a leftover of"), HasSubstr("missing: the")));
  }
  EXPECT_GT(moments.killed(), 0);
  EXPECT_EQ(RunCache(shop_, options).exit_code, 0);
  ExpectWhole("into");
  EXPECT_EQ(JsonFrom(shop_, 0, "ls --cache-dir " + shop_.Path("into"))["entries"].size(),
            size_t{kEntries});
}

// One after the other into the same tree: each resumes where the last one was killed.
TEST_F(KilledCaches, MergesThatWereKilledGoOn) {
  const std::string options = "merge " + shop_.root() + " " + shop_.Path("into") + kernels_;
  KillMoments moments(std::chrono::milliseconds(300), 8);
  for (int i = 0; moments.GoesOn(i, kRounds); ++i) {
    moments.Note(RunAndSignal(Command(options), SIGKILL, moments.Next()) == 128 + SIGKILL);
    ExpectWhole("into");
    if (i % 5 == 4) fs::remove_all(shop_.Path("into"));
  }
  EXPECT_GT(moments.killed(), 0);
  EXPECT_EQ(RunCache(shop_, options).exit_code, 0);
  ExpectWhole("into");
}

TEST_F(KilledCaches, RelocationsLeaveEveryFileOldOrNew) {
  const std::string old_folder = shop_.scratch().folder();
  const std::string new_folder = shop_.Path("moved/to/another/place");
  fs::create_directories(new_folder);
  fs::copy(shop_.Path("k.klir"), new_folder + "/k.klir");
  const std::string dir = " --cache-dir " + shop_.root();
  KillMoments moments(std::chrono::milliseconds(200), 9);
  for (int i = 0; moments.GoesOn(i, kRounds); ++i) {
    const std::string options =
        i % 2 == 0 ? old_folder + " " + new_folder : new_folder + " " + old_folder;
    moments.Note(RunAndSignal(Command("relocate " + options + dir), SIGKILL, moments.Next()) ==
                 128 + SIGKILL);
    for (const std::string& fault : shop_.Faults()) EXPECT_THAT(fault, HasSubstr("a leftover of"));
  }
  EXPECT_GT(moments.killed(), 0);
  // Leftovers belong to killed processes, which must be gone for a while before these are removed.
  EXPECT_EQ(RunCache(shop_, "relocate " + old_folder + " " + new_folder + dir).exit_code, 0);
  fs::remove(shop_.Path("k.klir"));
  for (const std::string& fault : shop_.Faults()) EXPECT_THAT(fault, HasSubstr("a leftover of"));
}

}  // namespace
}  // namespace nxdkit::test
